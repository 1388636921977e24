"""A share in words, with the space that the SI and all authored prose have before the sign."""


def per_cent(share: float, places: int = 0) -> str:
    """'20 %', and with one place '1.3 %'."""
    return f"{100 * share:.{places}f} %"
