"""The check by people: two pictures of one seed, before and after, nobody told which. Answers are stored at once."""

import gradio as gr

from engine.core.joblog import Row
from engine.studio import Studio
from webui import pictures
from webui.events import bind, said
from webui.owner import owner_of
from webui.view import Node, View, h

ANSWERS = (("left", "Left"), ("right", "Right"), ("both", "Both"), ("neither", "Neither"))


class PeopleCheck:
    """`offer(row)` is shown under a result; a click starts or goes on."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.view = View(events=("ask", "answer"), elem_id="people-check")

    def bind(self) -> None:
        bind(self.view.ask, said(self.view)(self._ask), None, self.view)
        bind(self.view.answer, said(self.view)(self._answer), None, self.view)

    def offer(self, row: Row) -> Node:
        words = (
            "A hundred fresh samples, each before and after, sides drawn by lot; half of them showed it before, as far "
            "as the run can tell. You say which side shows it; the sides are told only in the count."
        )
        place = {"data_job": row.id}
        button = h("button", "Start the blind check", on="ask", busy="Drawing …", **place)
        return h("section", h("h3", "Check by eye, blinded"), h("p", words, cls="quiet"), button, cls="card")

    def _ask(self, event: gr.EventData, request: gr.Request) -> dict:
        return {self.view: self._next(event.job, owner_of(request))}

    def _answer(self, event: gr.EventData, request: gr.Request) -> dict:
        owner = owner_of(request)
        answers = self.studio.human_answers(event.job, owner=owner) | {int(event.number): event.answer}
        self.studio.answer_human_check(event.job, answers, owner=owner)
        return self._ask(event, request)

    def _next(self, job: str, owner: str) -> Node:
        pairs = self.studio.human_check(job, owner=owner)
        answers = self.studio.human_answers(job, owner=owner)
        left = [pair for pair in pairs if pair.number not in answers]
        if not left:
            return self._counted(job, owner, len(pairs))
        sides = self.studio.human_pair(job, left[0], owner=owner)
        name = self.studio.run(job, owner).params["target"]["name"]
        shown = [
            h("figure", h("img", src=pictures.data_uri(side), alt=title), h("figcaption", title))
            for title, side in zip(("left", "right"), sides, strict=True)
        ]
        place = {"data_job": job, "data_number": left[0].number}
        buttons = [h("button", text, on="answer", data_answer=answer, **place) for answer, text in ANSWERS]
        done = f"{len(answers)} of {len(pairs)} answered; every answer is stored at once, so you may stop at any time."
        return h(
            "section",
            h("h3", f"Which of the two shows “{name}”?"),
            h("div", *shown, cls="faces two"),
            h("div", *buttons, cls="row"),
            h("p", done, cls="quiet small", role="status"),
            cls="card",
        )

    def _counted(self, job: str, owner: str, count: int) -> Node:
        found = self.studio.run(job, owner).result["people"]
        before, after = found["before"], found["after"]
        words = (
            f"Of {count} pairs you saw it before in {before['count']} and after in {after['count']} "
            f"(95 % interval {after['low']:.0f} to {after['high']:.0f} %)."
        )
        return h("section", h("h3", "Check by eye, blinded"), h("p", words), cls="card")
