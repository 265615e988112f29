"""New ids: typeids (UUIDv7), so unguessable and in order of time."""

from typeid import TypeID


class TypeIds:
    """`sub_01k…`: a prefix and 26 characters."""

    def new(self, prefix: str) -> str:
        return str(TypeID(prefix=prefix))
