import pytest

from tests.campaign.campaign import sample
from tests.campaign.scenes import SCENES, Scene


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.function}: {scene.name}")
def test_wherever_it_is_struck_nothing_is_lost_stuck_untold_or_done_twice_without_a_reason(
    scene: Scene,
) -> None:
    """Each call of the function, in one way each; `make campaign` strikes each in all."""
    cells = list(sample(scene))
    assert cells
    assert [cell for cell in cells if not cell.held] == []
