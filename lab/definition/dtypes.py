"""The dtypes that the lab knows: their sizes, and the short names that people give them."""

ITEMSIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1}
SHORT_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}


def dtype_named(name: str) -> str | None:
    """The full name of a dtype, given by its full or short name; None if there is no such dtype."""
    name = str(name).removeprefix("torch.")
    full = SHORT_DTYPES.get(name, name)
    return full if full in ITEMSIZES else None
