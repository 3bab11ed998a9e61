"""What a plan costs, by the list prices of genai-prices (the `analysis` extra)."""

from collections import Counter
from typing import Any

from latscope.probe.calibration.plan import ANSWER, WARM_UP, Plan, middle
from latscope.probe.targets import Target

PROVIDERS = {"xai": "x-ai", "gemini": "google"}
"""Vendors that have another name there."""


def price(plan: Plan, target: Target, model: str) -> str:
    """In words: `about 0.04 USD at list price`, or why it is not known."""
    if target.loopback:
        return "no price: the server runs on this machine"
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return "price unknown (pip install 'latscope[analysis]' brings list prices)"
    named = PROVIDERS.get(target.vendor or "", target.vendor)
    where: dict[str, Any] = (
        {"provider_id": named} if named else {"provider_api_url": target.base_url}
    )
    calls = Counter((call.prompt, ANSWER if call.long_answer else 1) for call in plan.calls)
    calls[(middle(plan.longest), ANSWER)] += WARM_UP
    try:
        # Each call for itself: some prices rise with the length of the prompt.
        total = sum(
            number
            * calc_price(
                Usage(input_tokens=prompt, output_tokens=output),
                model_ref=model,
                **where,
            ).total_price
            for (prompt, output), number in calls.items()
        )
    except (LookupError, ValueError):
        return f"price unknown (no list price for {model!r})"
    return f"about {float(total):.2g} USD at list price, less what the vendor's cache spares"
