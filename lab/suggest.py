"""'Did you mean …?' for a word on the command line that is not known."""

import argparse
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import NoReturn

CHOICE = re.compile(r"invalid choice: '([^']*)'")
COMMAND = re.compile(r"^argument COMMAND: invalid choice: (.+?) \(choose from .*", re.DOTALL)
OPTION = re.compile(r"unrecognized arguments: (--[\w-]+)")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean 'x'?', or nothing where no known word is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a sentence, which names the closest command, choice or option, and where more
    is told: the usage of a command with many options would hide it."""

    def error(self, message: str) -> NoReturn:
        unknown, known = CHOICE.search(message) or OPTION.search(message), set(_words(self))
        message = COMMAND.sub(r"no command \1", message)
        if unknown and unknown[1] not in known:  # one that is known is of another command
            message += did_you_mean(unknown[1], known)
        commands = any(isinstance(action, argparse._SubParsersAction) for action in self._actions)
        shown = f"all commands, {self.prog} COMMAND --help the options of one" if commands else "all options"
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help shows {shown}\n")


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every command, choice and option of a parser and of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        yield from (str(choice) for choice in action.choices or ())
        if isinstance(action, argparse._SubParsersAction):
            for sub in dict.fromkeys(action.choices.values()):
                yield from _words(sub)
