"""KV memory in blocks, and which of them hold a prefix another call may use again.

A block is in use (`refs` calls hold it), free and blank, or free with what it last held still
readable. Blank ones are taken first; then the least recently freed of the others, which forgets
what it held. That is the order of vLLM's free queue: blank blocks go to its front, the others to
its back, so it never mixes the two.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class Block:
    """One block of KV memory. key: what it holds when full, null until then."""

    __slots__ = ("key", "refs")

    def __init__(self) -> None:
        self.key: int | None = None
        self.refs = 0


class BlockPool:
    """`blocks` blocks. A key may be held by several blocks (two calls computed it, neither could
    see the other's); the first that held it is the one found."""

    def __init__(self, blocks: int) -> None:
        self.size = blocks
        self._unmade = blocks
        self._blank: list[Block] = []
        self._old: OrderedDict[Block, None] = OrderedDict()
        self._held: dict[int, Block] = {}
        self._also: dict[int, list[Block]] = {}
        """Keys held more than once: the others, in the order they came to hold it."""

    @property
    def free(self) -> int:
        return self._unmade + len(self._blank) + len(self._old)

    @property
    def used(self) -> int:
        return self.size - self.free

    def find(self, keys: Iterable[int]) -> list[Block]:
        """The blocks that hold the longest run of `keys` from the first one on."""
        found: list[Block] = []
        for key in keys:
            block = self._held.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def share(self, blocks: Sequence[Block]) -> None:
        """One more call holds each of `blocks`; those that were free no longer are."""
        for block in blocks:
            if block.refs == 0:
                del self._old[block]
            block.refs += 1

    def take(self, count: int) -> list[Block]:
        """`count` free blocks (there must be as many), blank, held by one call."""
        blank = min(count, len(self._blank))
        taken = self._blank[len(self._blank) - blank :]
        del self._blank[len(self._blank) - blank :]
        made = min(count - blank, self._unmade)
        self._unmade -= made
        taken += [Block() for _ in range(made)]
        for _ in range(count - blank - made):
            block, _ = self._old.popitem(last=False)
            self._forget(block)
            taken.append(block)
        for block in taken:
            block.refs = 1
        return taken

    def hold(self, key: int, block: Block) -> None:
        """`block` is full, and holds `key` from now on."""
        block.key = key
        if self._held.setdefault(key, block) is not block:
            self._also.setdefault(key, []).append(block)

    def give_back(self, blocks: Sequence[Block]) -> None:
        """A call leaves its blocks; the last ones are the first to be taken again."""
        for block in reversed(blocks):
            block.refs -= 1
            if block.refs:
                continue
            if block.key is None:
                self._blank.append(block)
            else:
                self._old[block] = None

    def _forget(self, block: Block) -> None:
        key, block.key = block.key, None
        assert key is not None
        others = self._also.get(key)
        if others is None:
            del self._held[key]
            return
        if self._held[key] is block:
            self._held[key] = others[0]
            block = others[0]
        others.remove(block)
        if not others:
            del self._also[key]
