"""Audit: did it really forget? Choose an erasure, give the person again where nobody kept them, attack, read."""

from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.core.targets import Seeds
from engine.studio import Studio, Subject
from webui import pictures
from webui.auditview import earlier, report_tree
from webui.choice import PictureChoice
from webui.events import bind, said
from webui.facepage import thumbnail
from webui.form import Form
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.person import photo_tree
from webui.photodrop import PhotoDrop, photos
from webui.seeds import parse_seeds
from webui.view import Node, View, h

LEAD = (
    "One button tries to bring back what was erased: the same attacks with the same budget on the base and on the "
    "unlearned model. It tells what was tried and how often it succeeded, never more."
)
AGAIN = "Whom to look for was not kept, only a fingerprint."
PHOTO = "Give the photo again: it stays in this computer's memory and is dropped after the audit."
SEED = "Seed of the generated sample, if it was one"
NOTHING = ["There is no erasure to audit yet. ", h("a", "Erase a person", href="./identity"), " or "]
NOTHING += [h("a", "a feature", href="./feature"), " first."]
LABELS = ["Its labels are not yours, or were deleted: label it, or load its file of labels, on the "]
LABELS += [h("a", "Feature page", href="./feature"), " first."]
CHOOSE = "choose an erasure first"


class AuditPage:
    """The parts in their order, then what they do."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        View([h("p", "Audit", cls="eyebrow"), h("h1", "Did it really forget?"), h("p", LEAD, cls="lead")])
        self.trouble = View()
        self.empty = View()
        self.subject = gr.Dropdown([], label="Erasure", elem_id="audit-subject")
        self.token = gr.State("")
        self.wanting = View()
        with gr.Column(visible=False) as self.person:
            View(h("p", AGAIN, cls="quiet"))
            with gr.Column(visible=False) as self.by_photo:
                View(h("p", PHOTO, cls="quiet"))
                self.drop = PhotoDrop("Drop the photo here, or choose it: JPG, PNG or WebP", elem_id="audit-photo")
                self.shown = View(elem_id="audit-person")
                self.faces = PictureChoice("", elem_id="audit-faces")
            self.seed = gr.Textbox("", label=SEED, max_length=20, elem_id="audit-seed")
        with gr.Accordion("Budget", open=False):
            budget = studio.audit_budget()
            self.form = Form(budget, budget.presets, start="Balanced")
        self.go = gr.Button("Run the audit", variant="primary", elem_classes=["run"])
        self.panel = JobPanel(studio, belongs=lambda row: row.kind == "audit", doing="Auditing")
        self.earlier = View(events=("open",))
        self.report = View(elem_id="audit-report")

    def bind(self, demo: gr.Blocks) -> None:
        told, results = said(self.trouble), [self.report, self.earlier]
        self.panel.watch(demo, locks=[self.go], parts=results, look=self.look)
        asked = {self.subject, self.token, self.faces, self.seed, *self.form.inputs}
        self.panel.starts(self.go.click, self.begin, asked)
        chosen = [self.wanting, self.person, self.by_photo, self.token, self.shown, self.faces, self.trouble]
        loaded = [self.subject, self.empty, *chosen, *results]
        bind(demo.load, told(self.load), None, loaded)
        bind(self.subject.input, told(self.chosen), self.subject, chosen)
        bind(self.drop.taken, told(self.opened), self.subject, [self.token, self.shown, self.faces, self.trouble])
        bind(self.earlier.open, told(self.reopened), None, [*results, self.trouble])

    # What to audit

    def load(self, request: gr.Request) -> dict:
        owner = owner_of(request)
        subjects = self.studio.audit_subjects(owner=owner)
        titles = [(title(subject), subject.name) for subject in subjects]
        wanted = dict(request.query_params).get("subject")
        names = [subject.name for subject in subjects]
        first = wanted if wanted in names else next(iter(names), None)
        rows = self.studio.audits(owner=owner)
        return {
            self.subject: gr.update(choices=titles, value=first),
            self.empty: None if subjects else h("div", NOTHING, cls="note"),
            **self.chosen(first, request),
            **(self.drawn(rows[0], owner) if rows else {}),
        }

    def chosen(self, name: str | None, request: gr.Request) -> dict:
        """Asks for the person where they are not known."""
        subject = self.find(name, owner_of(request)) if name else None
        wants = subject is not None and subject.wants == "person"
        shown = {self.person: wants, self.by_photo: wants and self.studio.is_of_faces(subject.base)}
        empty = {self.token: "", self.shown: None, self.faces: gr.update(items=[], value="")}
        missing = h("div", LABELS, cls="note") if subject is not None and subject.wants == "labels" else None
        return {part: gr.update(visible=visible) for part, visible in shown.items()} | empty | {self.wanting: missing}

    def opened(self, name: str | None, event: gr.EventData, request: gr.Request) -> dict:
        """A photo came: its faces, to pick one where there are several."""
        if name is None:
            raise UserError(CHOOSE)
        owner = owner_of(request)
        found = self.studio.open_portrait(photos(event)[0], self.find(name, owner).base, owner=owner)
        small = thumbnail(self.studio.portrait_pixels(found.token, owner=owner))
        count = len(found.boxes)
        crops = [self.studio.portrait_pixels(found.token, n, size=128, owner=owner) for n in range(count)]
        items = [{"id": str(n), "src": pictures.data_uri(x), "label": f"Face {n + 1}"} for n, x in enumerate(crops)]
        picking = gr.update(items=items, value="") if count > 1 else gr.update(items=[], value="")
        framed = photo_tree(small, found.boxes, 0 if count == 1 else None)
        return {self.token: found.token, self.shown: h("div", framed, cls="person"), self.faces: picking}

    def find(self, name: str, owner: str) -> Subject:
        found = (subject for subject in self.studio.audit_subjects(owner=owner) if subject.name == name)
        subject = next(found, None)
        if subject is None:
            raise UserError("this erasure is not here any more; choose another")
        return subject

    # The run and its report

    def begin(self, data: dict, owner: str) -> str:
        if not data[self.subject]:
            raise UserError(CHOOSE)
        name, knobs = data[self.subject], self.form.read(data)
        if self.find(name, owner).wants != "person":
            return self.studio.audit(name, knobs, owner=owner)
        if data[self.token]:
            face = int(data[self.faces] or 0)
            return self.studio.audit_portrait(name, data[self.token], face, knobs, owner=owner)
        seeds = parse_seeds(data[self.seed]) if data[self.seed].strip() else ()
        return self.studio.audit(name, knobs, target=Seeds(tuple(seeds[:1])) if seeds else None, owner=owner)

    def look(self, row: Row, owner: str) -> dict:
        return self.drawn(row, owner) if row.result else {}

    def reopened(self, event: gr.EventData, request: gr.Request) -> dict:
        owner = owner_of(request)
        return self.drawn(self.studio.run(event.job, owner), owner)

    def drawn(self, row: Row, owner: str) -> dict[Any, Node | None]:
        found = self.studio.audit_report(row.id, owner=owner)
        shots = self.studio.audit_pictures(row.id, owner=owner)
        rows = self.studio.audits(owner=owner)
        return {self.report: report_tree(row.id, found, shots), self.earlier: earlier(rows, row.id)}


def title(subject: Subject) -> str:
    """“glasses” · ffhq, kept"""
    return f"{subject.title} · {subject.base}, {'kept' if subject.is_kept else 'waits for your decision'}"


def build(studio: Studio, demo: gr.Blocks) -> None:
    AuditPage(studio).bind(demo)


pages["audit"] = Page("Audit", "audit", 60, build)
