"""Reader of numbers and strings that a ``DataOutputStream`` of Java wrote."""

from __future__ import annotations

from cec_store.connectors.spark.checkpoint.parsing import damaged


class JavaTexts:
    """Strings, numbers, and texts in pieces, one after the other."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._data = data
        self._at = 0

    def one(self) -> str:
        """Java writes characters beyond 16 bits as two, of three bytes each."""
        at = self._at
        try:
            text = self._take(self.number(2)).decode("utf-8", "surrogatepass")
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise damaged(self._path, at, f"not a string of Java's: {error}") from None

    def pieces(self) -> str:
        """A text that may be longer than one string of Java's."""
        count = self.number(4)
        return "".join(self.one() for _ in range(min(count, len(self._data))))

    def number(self, size: int) -> int:
        """An unsigned one of so many bytes."""
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise damaged(self._path, self._at, "the file ends too early")
        self._at += size
        return part
