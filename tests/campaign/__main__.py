"""`python -m tests.campaign`: the whole fault campaign as one table; exit status 1 where a cell broke."""

import sys
import time
from collections import Counter
from itertools import groupby

from tests.campaign.campaign import Cell, Strike, campaign
from tests.campaign.scenes import SCENES


def main() -> int:
    started = time.monotonic()
    cells: list[Cell] = []
    print(_row("point", [str(strike) for strike in Strike]))
    for scene in SCENES:
        print(f"\n{scene.function}: {scene.name}")
        for point, group in groupby(campaign(scene), key=lambda cell: cell.point):
            row = list(group)
            cells += row
            print(_row(f"  {point.nth}. {point.call}", [cell.word for cell in row]), flush=True)
    broken = [cell for cell in cells if not cell.held]
    for cell in broken:
        place = (
            f"{cell.scene.function}: {cell.scene.name}: {cell.point.nth}. {cell.point.call}, {cell.strike}"
        )
        print(f"\nBROKE {place}\n      {cell.broke}")
    _summary(cells, time.monotonic() - started)
    return 1 if broken else 0


def _row(name: str, words: list[str]) -> str:
    return f"{name:<36}" + "".join(f"{word:<19}" for word in words)


def _summary(cells: list[Cell], seconds: float) -> None:
    print(f"\n{_row('points × faults that held', [str(strike) for strike in Strike])}")
    for function in dict.fromkeys(cell.scene.function for cell in cells):
        ours = [cell for cell in cells if cell.scene.function == function]
        held = Counter(cell.strike for cell in ours if cell.held)
        points = len({(cell.scene.name, cell.point) for cell in ours})
        print(_row(f"{function} ({points} points)", [f"{held[strike]}" for strike in Strike]))
    held_all = sum(cell.held for cell in cells)
    again = sum(cell.sent_again for cell in cells)
    mails = sum(cell.mailed_again for cell in cells)
    print(
        f"\n{held_all} of {len(cells)} cells held in {seconds:.0f} s; lost 0 where held; "
        f"{again} sent again and {mails} mailed again, each by an invocation that was struck in between"
    )


if __name__ == "__main__":
    sys.exit(main())
