"""The templates, compiled. The only room that knows of Jinja.

Thousands of pages consist of millions of small texts. Jinja looks each attribute up in several ways, each call through
its context, and hands each text on by itself; here an attribute is an attribute, a call is a call, and what stands
between two statements of a template is one text. Views are whole and frozen, so that nothing of this is missed.
"""

import re
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from markupsafe import Markup, escape

from lab.evidence.source import ROOT
from lab.website.sources import digest_of

TEMPLATES = ROOT / "site_templates"
COMPILED = ROOT / ".cache" / "templates"
SPECIAL = re.compile("[&<>'\"]")


def shown(value: Any) -> str:
    """A value as HTML."""
    kind = type(value)
    if kind is Markup or (kind is str and not SPECIAL.search(value)):
        return value  # type: ignore[no-any-return]
    return str(value) if kind is float or kind is int else str(escape(value))


class _Plain(CodeGenerator):
    """Templates → Python."""

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        if frame.require_output_check:  # outside all blocks of a page that fills those of another
            super().visit_Output(node, frame)
            return
        self.writeline("yield concat((" if frame.buffer is None else f"{frame.buffer}.append(concat((", node)
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                self.write(repr(child.data))
            else:
                self.write("environment.shown(")
                self.visit(child, frame)
                self.write(")")
            self.write(", ")
        self.write("))" if frame.buffer is None else ")))")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        self.visit(node.node, frame)
        self.write(f".{node.attr}")

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        if forward_caller or node.dyn_args or node.dyn_kwargs:
            self.fail("a call with a body, or with * or **, is not made here", node.lineno)
        self.visit(node.node, frame)
        self.write("(")
        for argument in node.args:
            self.visit(argument, frame)
            self.write(", ")
        for named in node.kwargs:
            self.write(f"{named.key}=")
            self.visit(named.value, frame)
            self.write(", ")
        self.write(")")


class Templates(Environment):
    code_generator_class = _Plain
    shown = staticmethod(shown)


def templates() -> Templates:
    """To compile them takes longer than to make the pages of an experiment again: that is kept."""
    kept = COMPILED / f"{version('jinja2')}-{digest_of('lab/website/templates.py')[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    return Templates(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=FileSystemBytecodeCache(str(kept)),
    )
