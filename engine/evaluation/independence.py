"""Whoever labelled, trained or attacked may not judge: a number that only the accused confirms is none."""

from collections.abc import Iterable, Mapping

from engine.core.errors import UserError


def check_judges(judges: Iterable[str], roles: Mapping[str, str], *, override: bool = False) -> list[str]:
    """`check_judge` of everyone who judges; the sentences that must be shown, none where all are independent."""
    said = [check_judge(judge, roles, override=override) for judge in judges]
    return [sentence for sentence in said if sentence]


def check_judge(judge: str, roles: Mapping[str, str], *, override: bool = False) -> str:
    """Refuses a judge that has another role; with `override` it may, and the sentence that must be shown is returned.

    `roles` maps what was done ("labelled “glasses”", "attacked") to the classifier that did it.
    """
    guilty = [done for done, name in roles.items() if name == judge]
    if not guilty:
        return ""
    what = " and ".join(guilty)
    if not override:
        raise UserError(
            f"the classifier {judge!r} has {what} in this run, so it cannot judge the result; "
            "choose another judge, or say that you want it all the same"
        )
    return f"Not independent: the judge {judge!r} has also {what}, so these figures flatter."
