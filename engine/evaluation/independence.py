"""Whoever labelled, trained or attacked may not judge: a number that only the accused confirms is none."""

from collections.abc import Mapping

from engine.core.errors import UserError


def check_judge(judge: str, roles: Mapping[str, str], *, override: bool = False) -> str:
    """Refuses a judge that has another role; with `override` it may, and the sentence that must be shown is returned.

    `roles` maps what was done ("labelled", "trained", "attacked") to the classifier that did it.
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
