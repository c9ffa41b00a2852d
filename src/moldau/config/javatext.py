"""How Java prints things, where clients get to see it."""

from collections.abc import Iterable


def java_double(value: float) -> str:
    """A double in its shortest decimal form, as Double.toString writes it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if str(value).startswith("-") else ""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if -3 <= exponent < 7:
        point = exponent + 1
        padded = "0" * max(0, 1 - point) + digits.ljust(point, "0")
        point = max(point, 1)
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def java_hash(text: str) -> int:
    """String.hashCode as an unsigned number."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def in_hash_order(names: Iterable[str]) -> list[str]:
    """Names in the order in which a HashMap of them is walked: messages that list or pick names show it."""
    distinct = list(dict.fromkeys(names))
    buckets = 16
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        spread = java_hash(name)
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(distinct, key=bucket)
