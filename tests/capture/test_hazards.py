"""The known ways in which recording an LLM client goes wrong, and the test that each has.

`HAZARDS` holds what clients, HTTP libraries and SDKs do that trips instrumentation up; `FAULTS`
what users of such tools report, by group. A row names tests by file and function; the last test
here fails when one of them is gone.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

HAZARDS: Mapping[int, tuple[str, ...]] = {
    # A trace callback that raises breaks the request, or loses a pool slot for good.
    1: (
        "capture/test_hazard_cases.py::test_a_trace_callback_that_fails_costs_no_connection",
        "capture/test_hazard_cases.py::test_the_same_over_http2",
        "capture/test_unfelt.py::test_faults_in_between_are_noted",
    ),
    # A callback of the wrong kind is a TypeError; the user's own must be chained.
    2: (
        "capture/test_unfelt.py::test_a_users_own_trace_is_called",
        "capture/test_unfelt.py::test_a_users_own_async_trace_is_awaited",
        "capture/test_unfelt.py::test_a_trace_of_the_wrong_kind_fails_as_it_would",
        "capture/test_unfelt.py::test_a_users_faulty_trace_fails_as_it_would",
    ),
    # openai's sync stream stops at [DONE] and closes: no EOF; the content says it is complete.
    3: (
        "capture/test_sdk.py::test_a_sync_stream_closed_at_done_is_closed",
        "timeline/test_verdict.py::test_closing_after_the_terminal_event_is_complete",
    ),
    # openai's async stream is iterated a second time to drain it.
    4: ("capture/test_sdk.py::test_the_drain_after_done_reads_to_the_end",),
    # The drain is skipped on HTTP/2 by reading `http_version`.
    5: ("capture/test_http2.py::test_the_sdk_sees_http2_through_the_wrapper",),
    # Extensions of the response stay.
    6: (
        "capture/test_identical.py::test_a_sync_sdk_client_behaves_the_same",
        "capture/test_http2.py::test_two_streams_share_a_connection",
    ),
    # The client asserts the class of the stream.
    7: (
        "capture/test_transport.py::test_types_are_the_librarys_own",
        "capture/test_odd_streams.py::test_a_stream_of_the_wrong_class_is_the_clients_to_refuse",
    ),
    # `response.stream.elapsed` is read through us.
    8: (
        "capture/test_identical.py::test_a_sync_sdk_client_behaves_the_same",
        "capture/test_identical.py::test_an_async_sdk_client_behaves_the_same",
    ),
    # A dropped sync stream sits in a cycle until the collector comes.
    9: (
        "capture/test_sdk.py::test_an_abandoned_sync_stream_is_reported_once",
        "capture/test_outcomes.py::test_a_sync_stream_ends",
    ),
    # Async clean-up happens in other tasks: no context token is held across a yield.
    10: (
        "capture/test_sdk.py::test_an_abandoned_async_stream_is_reported_once",
        "capture/test_outcomes.py::test_tasks_that_hand_a_stream_on",
    ),
    # Cancelled during a read: nothing new is awaited, the slot is given back.
    11: (
        "capture/test_outcomes.py::test_an_async_stream_ends",
        "capture/test_outcomes.py::test_a_trio_scope_that_is_cancelled",
    ),
    # Inner generators are closed by us where the library does not.
    12: (
        "capture/test_odd_streams.py::test_a_source_is_closed_as_soon_as_it_is_left",
        "capture/test_odd_streams.py::test_an_async_source_is_closed_as_soon_as_it_is_left",
        "capture/test_odd_streams.py::test_an_iterator_without_close_is_left",
    ),
    # Closing while another task reads raises, as it always did.
    13: ("capture/test_odd_streams.py::test_closing_while_another_task_reads_is_as_it_was",),
    # Stream methods run on another thread or loop than the request.
    14: (
        "capture/test_transport.py::test_a_stream_may_be_read_on_another_thread",
        "capture/test_outcomes.py::test_a_stream_opened_in_one_loop_and_dropped_in_another",
        "capture/test_outcomes.py::test_threads_that_share_a_client_keep_their_calls_apart",
    ),
    # Pull clock: when a read was asked for and when it returned.
    15: (
        "capture/test_transport.py::test_a_read_is_asked_for_when_the_consumer_comes_back",
        "timeline/test_first_times.py::test_a_read_that_returned_at_once_is_known_to_an_interval",
    ),
    # Several events a read, events across reads.
    16: (
        "wire/test_sse.py::test_a_framing_gives_the_same_at_any_cuts",
        "wire/test_eventstream.py::test_cut_anywhere_the_frames_are_the_same",
        "timeline/test_first_times.py::test_a_frame_counts_when_its_last_byte_came",
    ),
    # Compressed bodies, and codings nobody knows.
    17: (
        "capture/test_transport.py::test_an_encoded_body_is_kept_encoded",
        "wire/test_body.py::test_an_encoding_decodes_however_its_bytes_come",
        "wire/test_body.py::test_an_unreadable_encoding_leaves_no_body_and_says_so",
    ),
    # The copy that is kept is bounded.
    18: (
        "capture/test_memory.py::test_a_long_body_keeps_its_times_only",
        "wire/test_sse.py::test_memory_is_bounded_by_the_limit",
    ),
    # HTTP/2: one read serves many streams.
    19: (
        "capture/test_http2.py::test_two_streams_share_a_connection",
        "timeline/test_exchanges.py::test_a_shared_connection_and_a_broken_capture_are_flagged",
    ),
    # Redirect and auth hops call the transport again with the same extensions.
    20: (
        "capture/test_transport.py::test_redirects_and_auth_hops_are_attempts_of_one_call",
        "capture/test_transport.py::test_async_hops_are_attempts_of_one_call",
        "capture/test_ways.py::test_a_redirect_is_an_attempt_of_the_call",
    ),
    # A header added after signing breaks the signature.
    21: (
        "capture/test_classes.py::test_a_class_is_recorded",
        "capture/test_classes.py::test_an_async_class_is_recorded",
        "export/otel/test_propagate.py::test_a_signed_request_is_left_as_it_is",
    ),
    # Other instrumentations at work: one inference span.
    22: (
        "export/otel/test_detect.py::test_the_anthropic_sdks_own_span_is_the_inference",
        "export/otel/test_detect.py::test_attempts_are_left_to_the_instrumentation_of_httpx",
    ),
    # Type checks and private names: no type is changed.
    23: (
        "capture/test_identical.py::test_a_sync_sdk_client_behaves_the_same",
        "capture/test_instrument.py::test_detaching_restores_the_client",
        "capture/test_canary.py::test_the_private_names_are_there",
    ),
    # What the SDK keeps outlives the instrument; interpreter shutdown.
    24: (
        "capture/test_process.py::test_what_outlives_the_instrument_goes_on_unrecorded",
        "capture/test_process.py::test_the_interpreter_ends_with_a_stream_open",
        "capture/test_instrument.py::test_a_dropped_client_is_freed_at_once",
    ),
    # Loop lag is no network wait; forks; clocks.
    25: (
        "capture/test_watch.py::test_a_blocked_loop_is_seen_in_the_recording",
        "capture/test_process.py::test_a_fork_reports_its_own_calls_only",
        "capture/test_transport.py::test_zero_is_anchored_to_both_clocks",
    ),
    # A cancelled HTTP/2 stream goes on at the server: said, not hidden.
    26: ("capture/test_ways.py::test_http2_streams_end_as_they_would",),
    # Queue and prefill are not told apart from the client alone.
    27: ("attribution/test_partition.py::test_a_silent_server_leaves_queue_and_prefill_joined",),
}

FAULTS: Mapping[str, tuple[str, ...]] = {
    # Never ended when the consumer stops early.
    "A": (
        "capture/test_outcomes.py::test_a_sync_stream_ends",
        "capture/test_outcomes.py::test_an_async_stream_ends",
        "capture/test_outcomes.py::test_a_loop_that_was_closed_under_a_stream",
        "capture/test_memory.py::test_abandoned_streams_do_not_pile_up",
    ),
    # Cancellation and other BaseException.
    "B": (
        "capture/test_outcomes.py::test_an_async_stream_ends",
        "capture/test_sdk.py::test_a_cancelled_call_is_recorded_once",
        "timeline/test_verdict.py::test_the_callers_own_stop_is_cancelled_at_the_stop",
    ),
    # Context leaks, generators finalised elsewhere.
    "C": (
        "capture/test_outcomes.py::test_tasks_that_hand_a_stream_on",
        "capture/test_hook.py::test_no_call_is_current_outside_the_sdk",
        "export/otel/test_entry.py::test_a_call_thrown_away_in_another_context_leaves_no_trace_there",
    ),
    # Broken `with`, `close`, raw responses, helpers.
    "D": (
        "capture/test_identical.py::test_a_sync_sdk_client_behaves_the_same",
        "capture/test_identical.py::test_an_async_sdk_client_behaves_the_same",
        "capture/test_sdk.py::test_every_copy_of_a_client_is_served",
    ),
    # The stream altered, errors swallowed or replaced.
    "E": (
        "capture/test_hazard_cases.py::test_the_bytes_the_sdk_sees_are_the_bytes_that_were_sent",
        "capture/test_hazard_cases.py::test_messages_that_are_a_one_shot_iterator_are_sent",
        "capture/test_hazard_cases.py::test_a_recorder_whose_every_step_fails_is_not_felt",
        "capture/test_unfelt.py::test_a_sink_that_raises_is_not_felt",
        "middleware/test_instrument.py::test_a_sink_that_raises_reaches_nobody",
    ),
    # Wrong first token or duration.
    "F": (
        "timeline/test_first_times.py::test_role_at_0_reasoning_at_100_content_at_200_usage_at_400",
        "timeline/test_exchanges.py::test_a_consumer_that_keeps_the_stream_waiting_is_seen",
        "capture/test_transport.py::test_a_read_is_asked_for_when_the_consumer_comes_back",
    ),
    # Wrong status.
    "G": (
        "timeline/test_verdict.py::test_an_error_object_inside_a_200_is_an_error",
        "timeline/test_verdict.py::test_a_stream_that_just_stops_is_cut",
        "timeline/test_verdict.py::test_a_finish_reason_for_every_choice_is_complete_without_done",
        "protocols/test_bedrock.py::test_an_exception_in_the_stream_is_an_error_of_its_name",
    ),
    # Usage, tokens, double counting.
    "H": (
        "capture/test_sdk.py::test_retries_through_with_options_are_one_call",
        "protocols/test_anthropic_messages.py::test_usage_is_cumulative_and_counts_the_cache",
        "capture/test_hazard_cases.py::test_odd_tool_calls_pass_and_have_a_first_token",
        "export/otel/test_detect.py::test_the_anthropic_sdks_own_span_is_the_inference",
    ),
    # Parents and propagation.
    "I": (
        "export/otel/test_sink.py::test_a_call_is_a_child_of_the_span_it_was_made_in",
        "export/otel/test_sink.py::test_async_calls_leave_the_current_span_as_it_was",
        "capture/test_hook.py::test_no_call_is_current_outside_the_sdk",
    ),
    # Tool-call chunks.
    "J": (
        "capture/test_hazard_cases.py::test_odd_tool_calls_pass_and_have_a_first_token",
        "timeline/test_first_times.py::test_a_tool_call_is_a_token_from_its_name_on",
    ),
    # Performance and memory.
    "K": (
        "capture/test_memory.py::test_memory_is_bounded_per_read",
        "capture/test_memory.py::test_abandoned_streams_do_not_pile_up",
        "wire/test_sse.py::test_work_grows_with_the_stream_and_no_faster",
    ),
    # SDK upgrades.
    "L": (
        "capture/test_canary.py::test_every_hook_fires",
        "capture/test_canary.py::test_a_transport_that_moved_is_warned_of_once",
        "capture/test_canary.py::test_an_entry_that_moved_is_warned_of_once",
        "capture/test_classes.py::test_no_class_is_forgotten",
        "capture/test_floors.py::test_the_capture_tests_pass_with",
        "capture/test_ways.py::test_a_tunnel_is_set_up_before_the_request",
        "capture/test_ways.py::test_a_unix_socket",
    ),
    # Privacy.
    "M": (
        "protocols/test_mask_canaries.py::test_no_canary_survives",
        "protocols/test_bedrock.py::test_a_masked_stream_says_the_same",
        "export/otel/test_faults.py::test_no_secret_is_in_any_exported_byte",
        "export/otel/test_faults.py::test_an_exceptions_text_is_not_exported",
    ),
    # Connections.
    "N": (
        "capture/test_outcomes.py::test_a_sync_stream_ends",
        "capture/test_outcomes.py::test_an_async_stream_ends",
        "capture/test_ways.py::test_http2_streams_end_as_they_would",
        "capture/test_classes.py::test_a_class_is_recorded",
    ),
}


@cache
def defined(path: Path) -> frozenset[str]:
    """The tests of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def missing(name: str) -> str | None:
    """What is wrong with a test's name; null when it is there."""
    file, _, test = name.partition("::")
    path = TESTS / file
    if not path.is_file():
        return f"{file} is gone"
    return None if test in defined(path) else f"{file} has no {test}"


def test_every_hazard_and_every_group_has_a_row() -> None:
    assert list(HAZARDS) == list(range(1, 28))
    assert "".join(FAULTS) == "ABCDEFGHIJKLMN"
    assert all(HAZARDS.values())
    assert all(FAULTS.values())


@pytest.mark.parametrize("row", [*HAZARDS, *FAULTS])
def test_the_tests_named_are_there(row: int | str) -> None:
    named = HAZARDS[row] if isinstance(row, int) else FAULTS[row]
    assert [said for said in map(missing, named) if said] == []


@pytest.mark.parametrize(
    "name", ["capture/test_gone.py::test_x", "capture/test_hazards.py::test_nobody_wrote"]
)
def test_a_test_that_is_gone_is_noticed(name: str) -> None:
    assert missing(name) is not None
