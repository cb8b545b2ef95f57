"""What commands say of files that were added, and of those that vanished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb_documents.sending import LEFT_OUT, STATES
from kb_documents.skip_rules import SECRET, counted
from kb_framework.api.cli import Cli

Outcome = dict[str, Any]
# Keys and credentials that a warning names.
_NAMED = 5


def report(
    cli: Cli,
    outcomes: list[Outcome],
    removal: dict[str, Any],
    *,
    verbose: bool = False,
    reports: list[dict[str, Any]] | None = None,
) -> int:
    """Print what happened, or with --json add it to `reports` where they are given; return the exit code."""
    counts = _counts(outcomes, removal)
    inside = [part for item in outcomes for part in item.get("attachments", ())]
    left_out = _left_out(outcomes, inside)
    if not cli.json:
        _say(cli, outcomes, removal, inside)
        keys_inside = any(part.get("kind") == SECRET for part in inside)
        _say_left_out(cli, left_out, verbose, keys_inside=keys_inside)
        cli.print(_summary(counts, inside))
        if removal.get("missing"):
            cli.say("missing documents come back with their files: kb list --missing")
        if "refused" in removal:
            cli.say(f"kb: {removal['refused']}")
    elif reports is None:
        cli.result(_as_json(counts, outcomes, removal, left_out))
    else:
        reports.append(_as_json(counts, outcomes, removal, left_out))
    return 1 if counts["failed"] or "refused" in removal else 0


def _counts(outcomes: list[Outcome], removal: dict[str, Any]) -> dict[str, int]:
    counts = {state: sum(item["state"] == state for item in outcomes) for state in STATES}
    if returned := sum(item.get("returned", False) for item in outcomes):
        counts["unchanged"] -= sum(
            item.get("returned", False) and item["state"] == "unchanged" for item in outcomes
        )
        counts["returned"] = returned
    if tagged := sum(1 for item in outcomes if item.get("tags_added")):
        counts["tagged"] = tagged
    # A file that moved was found as a copy at its new place.
    copies, moved = sum(item.get("is_copy", False) for item in outcomes), removal.get("moved", 0)
    counts["unchanged"] = max(0, counts["unchanged"] - max(copies, moved))
    if copies > moved:
        counts["copies"] = copies - moved
    if "moved" in removal:
        counts |= {"moved": removal["moved"], "missing": removal["missing"]}
        counts["failed"] += removal["failed"]
    if removal.get("removed"):
        counts["removed"] = removal["removed"]
    return counts


def _left_out(outcomes: list[Outcome], inside: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the paths of what was left out, by reason."""
    found: dict[str, list[str]] = {}
    for item in (item for item in outcomes if item["state"] == LEFT_OUT):
        found.setdefault(item["reason"], []).append(item["path"])
    for part in (part for part in inside if part["status"] == LEFT_OUT):
        found.setdefault(part["kind"], []).append(part["path"])
    return found


def _as_json(
    counts: dict[str, int],
    outcomes: list[Outcome],
    removal: dict[str, Any],
    left_out: dict[str, list[str]],
) -> dict[str, Any]:
    refused = (
        {"refused": removal["refused"], "refusal": removal["details"]}
        if "refused" in removal
        else {}
    )
    return {
        **counts,
        "files": [item for item in outcomes if item["state"] != LEFT_OUT],
        "left_out": left_out,
        "removal_errors": removal.get("errors", []),
        "missing_documents": removal.get("documents", []),
        **refused,
    }


def _summary(counts: dict[str, int], inside: Sequence[Outcome]) -> str:
    words = {"copies": "copy" if counts.get("copies") == 1 else "copies"}
    added = sum(part["status"] != LEFT_OUT for part in inside)
    listed = ", ".join(f"{count} {words.get(state, state)}" for state, count in counts.items())
    return listed + (f" ({added} files inside them)" if added else "")


def _say(
    cli: Cli, outcomes: list[Outcome], removal: dict[str, Any], inside: Sequence[Outcome]
) -> None:
    for item in (item for item in outcomes if item["state"] == "failed"):
        cli.say(f"failed: {item['path']}: {item['reason']}")
    for part in (part for part in inside if part["status"] == "failed"):
        cli.say(f"failed: {part['path']}: {part['reason']}")
    for item in removal.get("errors", []):
        cli.say(f"not removed: document {item['document_id']}: {item['error']}")
    if before := sum(not item.get("read", True) for item in outcomes):
        cli.say(
            f"{before} of these could not be read before either and are the same since: --retry reads them again"
        )
    for item in outcomes:
        if (cut := item.get("truncated")) and item["state"] in ("added", "updated"):
            how_much = f"the first {cut['kept']} of {cut['characters']} characters were read (KB_MAX_TEXT_CHARS)"
            cli.say(f"shortened: {item['path']}: {how_much}")


def _say_left_out(
    cli: Cli, left_out: dict[str, list[str]], verbose: bool, *, keys_inside: bool
) -> None:
    if keys := left_out.get(SECRET):
        more = (
            f" and {len(keys) - _NAMED} more (--verbose names them)"
            if len(keys) > _NAMED and not verbose
            else ""
        )
        shown = keys if verbose else keys[:_NAMED]
        other = ", but none from inside another file" if keys_inside else ""
        cli.say(
            f"warning: private keys or credentials left out: {', '.join(shown)}{more}; --all adds them{other}"
        )
    if left_out:
        cli.say(f"left out: {counted(left_out)}")
    for reason in left_out if verbose else ():
        for place in left_out[reason]:
            cli.say(f"left out ({counted({reason: [place]}).partition(' ')[2]}): {place}")
