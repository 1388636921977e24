"""What a figure looks like in a text: a digit with a unit."""

import re

UNITS = (
    r"(?:[µμmnu]?s|seconds?|minutes?|hours?|per ?cent|%|×|x(?!\w)|fold|times (?:as|the|its|faster|slower|longer)\b"
    r"|[kMGTP]?B(?:/s)?|[KMGT]iB(?:/s)?|[kMGTP]?FLOPs?(?:/s)?|[kMGTP]?FLOPS|[kMG]?Hz|[km]?W|m?J|°C)"
)
DIGIT = r"[\d½¼¾⅓⅔]"  # of any script
RARE_DIGIT = re.compile(r"(?![0-9])[\d½¼¾⅓⅔]")
SPACE = r"(?:\s|&(?:nbsp|[a-z]*sp|#\w+);)*-?"  # as HTML may write it too
# 4096×8192 is a shape and no factor: there a digit follows.
FIGURE = re.compile(rf"(?:\d[\d.,]*)?{DIGIT}{SPACE}{UNITS}(?![\w/])")
