from latscope.sim.fleet.cache import Block, BlockPool


def filled(pool: BlockPool, *keys: int) -> list[Block]:
    """Blocks a call has taken and filled."""
    blocks = pool.take(len(keys))
    for key, block in zip(keys, blocks, strict=True):
        pool.hold(key, block)
    return blocks


def test_a_run_of_keys_is_found_up_to_the_first_that_is_not_there() -> None:
    pool = BlockPool(5)
    blocks = filled(pool, 1, 2, 4)
    assert pool.find([1, 2, 3, 4]) == blocks[:2]
    assert pool.find([3, 1]) == []


def test_blank_blocks_go_first_then_the_least_recently_freed_its_last_block_first() -> None:
    """Of two calls that left, the first one's tail is the first thing forgotten."""
    pool = BlockPool(5)
    first, second = filled(pool, 1, 2), filled(pool, 11, 12)
    pool.give_back(first)
    pool.give_back(second)
    pool.take(1)  # the blank one
    assert pool.find([1, 2]) == first
    pool.take(1)
    assert pool.find([1, 2]) == first[:1]
    pool.take(2)
    assert pool.find([1]) == []
    assert pool.find([11]) == second[:1]
    assert pool.free == 1


def test_a_shared_block_is_free_when_the_last_call_leaves_it() -> None:
    pool = BlockPool(3)
    blocks = filled(pool, 1)
    pool.share(blocks)
    pool.give_back(blocks)
    assert pool.free == 2
    pool.give_back(blocks)
    assert pool.free == 3
    pool.share(pool.find([1]))
    assert pool.used == 1


def test_a_block_left_before_it_was_full_is_blank_again() -> None:
    pool = BlockPool(2)
    (kept,) = filled(pool, 1)
    half = pool.take(1)
    pool.give_back([kept])
    pool.give_back(half)
    assert pool.take(1) == half
    assert pool.find([1]) == [kept]


def test_a_key_held_thrice_is_found_as_long_as_one_of_them_holds_it() -> None:
    """The first that held it is the one found; when it is forgotten, the next."""
    pool = BlockPool(3)
    one, two, three = filled(pool, 7), filled(pool, 7), filled(pool, 7)
    assert pool.find([7]) == one
    pool.give_back(one)
    pool.give_back(two)
    pool.take(1)
    assert pool.find([7]) == two
    pool.take(1)
    assert pool.find([7]) == three
    pool.give_back(three)
    pool.take(1)
    assert pool.find([7]) == []


def test_a_later_holder_may_be_forgotten_first() -> None:
    pool = BlockPool(2)
    one, two = filled(pool, 7), filled(pool, 7)
    pool.give_back(two)
    pool.take(1)
    assert pool.find([7]) == one
