"""What of JSON Schema our schemas use, for the Python tests."""
import re


def violations(schema, value, root, path="$"):
    """What of JSON Schema the file uses, checked by hand: Debian's jsonschema is one more package."""
    if "$ref" in schema:
        schema = {**root["definitions"][schema["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in schema.items() if k != "$ref"}}
    known = {"$schema", "title", "description", "definitions", "type", "const", "enum", "required", "properties", "patternProperties", "additionalProperties",
             "items", "minimum"}
    assert set(schema) <= known, set(schema) - known
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}

    def is_a(name):
        if name == "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        if name == "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return isinstance(value, kinds[name])

    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_a(t) for t in types):
        yield f"{path}: {value!r} is not {types}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        yield f"{path}: {value!r} is below {schema['minimum']}"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                yield f"{path}: no {name}"
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                yield from violations(schema["properties"][name], inner, root, f"{path}.{name}")
                continue
            patterns = [rule for pattern, rule in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
            for rule in patterns:
                yield from violations(rule, inner, root, f"{path}.{name}")
            if not patterns and schema.get("additionalProperties") is False:
                yield f"{path}: {name} is not in the schema"
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            yield from violations(schema["items"], inner, root, f"{path}[{i}]")
