"""Checks the JSON of commands against doc/json.md. Usage: json-fields.py DOC FOLDER, where FOLDER has COMMAND.N.json files.

Prints each field that is not described or has another type than it should, each described field that no file has, and
"agrees" if there is none.
"""
import json
import os
import re
import sys

TYPES = {
    'text': lambda value: isinstance(value, str),
    'integer': lambda value: isinstance(value, int) and not isinstance(value, bool),
    'number': lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    'flag': lambda value: isinstance(value, bool),
    'null': lambda value: value is None,
    'object': lambda value: isinstance(value, dict),
    'array': lambda value: isinstance(value, list),
}


class Field:
    def __init__(self, text, types):
        self.text = text
        self.types = types
        self.seen = set()


def read_doc(path):
    """The fields of each command, by their paths; those of every command are under ''. `{a,b}[].c` is two paths."""
    commands = {}
    command = None
    for line in open(path, encoding='utf-8'):
        heading = re.match(r'## (?:`(\w+)`|In every object)$', line)
        if line.startswith('## '):
            command = (heading.group(1) or '') if heading else None
        row = re.match(r'\| `([^`]+)` \| ([^|]+) \|', line)
        if command is None or not row:
            continue
        fields = commands.setdefault(command, {})
        field = Field(f'{command or "every object"}: {row.group(1)}', row.group(2).strip().split(' or '))
        braces = re.match(r'\{(.*)\}(.*)', row.group(1))
        for place in [name + braces.group(2) for name in braces.group(1).split(',')] if braces else [row.group(1)]:
            if place in fields:
                print(f'{command}: {place} is described twice')
            fields[place] = field
    return commands


def each_member(value, path):
    """The path and the value of each member of objects, in arrays, too; those of `rest` are keyed by table."""
    if isinstance(value, list):
        for item in value:
            yield (path + '[]', item)
            yield from each_member(item, path + '[]')
    elif isinstance(value, dict):
        for key, member in value.items():
            below = f'{path}.*' if path == 'rest' else f'{path}.{key}' if path else key
            yield (below, member)
            yield from each_member(member, below)


def check(command, described, document):
    """What is wrong with a document; the fields that it has are marked as seen."""
    members = each_member(document, '')
    if isinstance(document, list):
        members = ((path[2:].lstrip('.'), value) for path, value in members)
    for path, value in members:
        field = described.get(command, {}).get(path) or described[''].get(path)
        if path == '':
            continue
        if field is None:
            yield f'{command}: {path} is not described'
            continue
        field.seen.add('null' if value is None else 'value')
        if not any(TYPES[name](value) for name in field.types):
            yield f'{field.text} is {json.dumps(value)[:40]} in a file, and described as {" or ".join(field.types)}'


def main(doc, folder):
    described = read_doc(doc)
    wrong = set()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            wrong.update(check(name.split('.')[0], described, json.load(file)))
    for field in (field for fields in described.values() for field in fields.values()):
        if 'value' not in field.seen and field.types != ['null']:
            wrong.add(f'{field.text} has a value in no file')
        if 'null' in field.types and 'null' not in field.seen:
            wrong.add(f'{field.text} is null in no file')
    print('\n'.join(sorted(wrong)) or 'agrees')


main(*sys.argv[1:])
