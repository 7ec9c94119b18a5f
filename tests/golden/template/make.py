#!/usr/bin/env python3
"""Makes golden.json: results of transformers' apply_chat_template for single expressions, and for
templates written here that use the features of model families' templates.

    pip install transformers jinja2 tokenizers && python tests/golden/template/make.py

Templates see the date 2023-11-14 22:13:20 UTC."""

import datetime
import json
import os
import pathlib
import platform
import time

os.environ["TZ"] = "UTC"
time.tzset()

import jinja2
import transformers
import transformers.utils.chat_template_utils as utils
from tokenizers import Tokenizer, models

NOW = 1700000000
HERE = pathlib.Path(__file__).parent


class fixed_clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW)


utils.datetime = fixed_clock

TOOLS = [{"type": "function", "function": {
    "name": "forecast", "description": "Weather of a <city> & \"more\"",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Où?"},
        "days": {"type": ["integer", "null"], "minimum": 1, "default": 2.5}}}}}]
CALL = {"id": "call12345", "type": "function",
        "function": {"name": "forecast", "arguments": {"city": "Zürich", "ok": True, "n": None}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


SYSTEM = {"role": "system", "content": "Be  brief.\n"}
CONVERSATIONS = {
    "one": [user("Hello")],
    "system": [SYSTEM, user(" Hi\n")],
    "turns": [user("Hi"), assistant("  Hello! "), user("你好 🎉\u2028"), assistant(""), user("?")],
    "wrong": [assistant("first"), user("x")],
    "narrator": [user("x"), {"role": "narrator", "content": "y"}],
    "thinking": [user("2+2?"), assistant("<think>\nadd\n</think>\n\n4"), user("more"),
                 assistant("5", reasoning_content="again\n"), user("x")],
    "null": [user("x"), {"role": "assistant", "content": None}, user("y")],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"},
                                           {"type": "text", "text": "b"}]}],
    "tools": [user("Weather?"), {"role": "assistant", "content": "", "tool_calls": [CALL]},
              {"role": "tool", "name": "forecast", "content": "{\"t\": 12}"}, assistant("12")],
}
SETTINGS = [{}, {"add_generation_prompt": True}, {"tools": TOOLS, "add_generation_prompt": True},
            {"add_generation_prompt": True, "enable_thinking": False},
            {"continue_final_message": True}]

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2 | 7 // 2 | -7 // 2 | -7 % 3 | 7.5 % -2 | 2 ** 10 | 2 ** -1 | 2 ** 3 ** 2 | -2 ** 2
1 if false else 2 | (1 if false) is defined | 1 < 2 < 3 | 1 < 3 < 2 | 3 in [1, 2, 3] | 'b' not in 'abc'
none | true | [none, true, 1.0, 1e20, 1e-7, 0.1, 'a', "it's", 'q"\'', 'x\ny\t\\', 'é\u2028\x00']
{'a': 1, 2: [3, (4,), ()], none: {}} | ('a', 'b') | (1,) | 'a' 'b' ~ 1 ~ none ~ missing ~ true
'abcdef'[1:4] ~ 'abcdef'[::-1] ~ 'abcdef'[-2:] ~ 'äöü'[1] ~ [1, 2, 3][::-2] | [1, 2, 3][5:] | [1, 2][9] is defined
'x' * 3 ~ [1] * 2 ~ (1, 2) + (3,) | 'a,b,,c'.split(',') | ' a  b '.split() | 'a-b-c'.split('-', 1) | 'a-b-c'.rsplit('-', 1)
' a b  c '.split(none, 1) | ' a b  c '.rsplit(none, 1) | 'xxaxx'.strip('x') ~ '\u3000a\n'.strip() ~ 'ba'.lstrip('b') ~ 'ab'.rstrip('b')
'abc'.startswith('ab') | 'abc'.endswith(('x', 'bc')) | 'abc'.startswith('b', 1) | 'abcabc'.find('c', 3) | 'abc'.rfind('z') | 'aXb'.replace('X', '--', 1)
'hello wORLD'.title() ~ 'hello wORLD'.capitalize() ~ 'ÄÖ'.lower() ~ 'äö'.upper() | "they're bill's-x (y)"|title | "they're".title()
'a\nb\r\nc'.splitlines() | 'a-b'.partition('-') | 'a-b-c'.rpartition('-') | 'ab'.removeprefix('a') ~ 'ab'.removesuffix('b') | '-'.join(['a', 'b']) | '7'.zfill(3) | '-7'.zfill(4) | 'a'.ljust(3) ~ '|'
'12'.isdigit() | 'ab1'.isalpha() | 'ab1'.isalnum() | ' '.isspace() | 'Ab'.isupper() | 'ab'.islower() | 'abab'.count('ab') | 'abc'.index('c')
{'b': 1, 'a': 2}.items()|list | {'a': 1}.keys() | {'a': 1}.values() | {'a': 1}.items() | {'a': 1}.get('b') | {'a': 1}.get('b', 3) | {'items': 5}['items'] | {'x': 5}.x
[3, 1, 2]|sort | ['b', 'A', 'c']|sort | ['b', 'A']|sort(case_sensitive=true) | [3, 1, 2]|sort(reverse=true) | {'b': 1, 'A': 2}|dictsort | {'b': 1, 'a': 2}|dictsort(by='value')
[{'n': 2, 'k': 'b'}, {'n': 1, 'k': 'a'}]|sort(attribute='n') | [{'n': {'m': 2}}]|map(attribute='n.m')|list | [{'a': 1}, {}]|map(attribute='a', default=0)|list | ['a', 'b']|map('upper')|join('+')
[1, 2, 3, 4]|select('odd')|list | [1, 2, 3]|reject('equalto', 2)|list | [{'a': 1}, {'a': 0}]|selectattr('a')|list | [{'a': 1}, {'b': 0}]|rejectattr('a', 'defined')|list | [0, 1, '']|select|list
[1, 'a', 'A', 1.0]|unique|list | [1, 2, 3]|sum | [1, 2]|max | [2, 1]|min | []|max is defined | [1, 2, 3]|first | 'abc'|last | 'abc'|reverse | [1, 2]|reverse|list | range(5)|batch(2, 'x')|list
' x '|trim | 'xyx'|trim('x') | 'aaa'|replace('a', 'b', 2) | 'abc'|replace('', '-') | 'a\nb\n\nc'|indent(2) | 'a\nb'|indent(first=true) | 'a\n\nb'|indent(3, blank=true) | 'a\nb'|indent('> ')
'3'|int + 1 | '3.7'|int | 'x'|int(9) | 'ff'|int(base=16) | 3.9|int | '1.5'|float | 'x'|float | -3|abs | 2.5|round | 3.14159|round(2) | 2.1|round(method='ceil') | 7|round
'%s is %r %d%%'|format('a', 'b', true) | '%s'|format() | 'x'|format(1) | missing|default('d') | ''|default('d') | ''|default('d', true) | none|d('x') | 'a b  c_d'|wordcount | 'abc'|length | [1]|count | 'a'|string ~ 1|string | 'abc'|list | {'a': 1}|list
{'a': [1, 'é<&', none, 1.5]}|tojson | [1, {'a': []}]|tojson(indent=2) | {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) | 'é🎉'|tojson(ensure_ascii=true) | {1: 2, none: 3, true: 4}|tojson | '\x01\x7f\u2028'|tojson
('<a>'|safe) + '<b>' | ('<a>'|safe) ~ '<b>' | [('a'|safe)] | '<'|safe|upper + '&'
1 is number | true is number | true is integer | 1.0 is float | 'a' is string | {} is mapping | [] is iterable | 1 is iterable | 'a' is sequence | {} is sequence | missing is sequence | none is none | missing is undefined
4 is even | 4 is divisibleby 2 | 1 is sameas true | 'a' is in ['a'] | 3 is ge 3 | 'ab' is lower | range is callable | 'x' is eq 'x' and 1 is not none | 2 is odd or 3 is odd
range(3) | range(1, 7, 2)|list | range(3, 0, -1)|list | dict(a=1) | dict([('x', 1)]) | namespace(a=1).a | strftime_now('%d %b %Y %H:%M')
missing | missing.x | missing + 1 | missing() | none.x | none.x.y | [1].x is defined | 'a' + 1 | 1 + none | [1] < ['a'] | 1 // 0 | 'a' in 1 | {}.a.b | [1, 2].append(3) | {}.update({}) | {'a': 1}.pop('a')
raise_exception('no ' ~ 1) | missing|tojson | range(3)|tojson | none|length | 5|list | [2, 'a']|sort | {}|first is defined | [[1], [2]]|sum(start=[]) | missing|items|list | missing|int | missing|upper ~ 'x'
1_000 + 0.5e1 | 1e3 | 'a\x41\u00e9\101\q' | [1, [2, [3]]] == [1, [2, [3]]] | (1, 2) == [1, 2] | {'a': 1} == {'a': 1.0} | 1 == true | missing == missing | none == missing | 'b' > 'a' | [1, 2] < [1, 3]
not 1 == 2 | not (true and false) or false | 1 and 0 | '' or 'x' | -3|abs | -'3'|int | (-3)|abs | +true | 10 - -3 | 5 if 1 else 6 if 0 else 7
'1_000'|float | '1__0'|float(3) | '_5'|int(7) | '5_'|int(7) | '1_0'|int | '0b11'|int(base=2) | '0o17'|int(base=8) | '0x_1f'|int(base=16) | '+-5'|int(7) | '+-5'|float(7) | '1e400'|float | '1e_1'|float(7)
'straße'.upper() | 'ß'.title() | 'ßa'.capitalize() | 'ßa b'|title | 'İ'.lower()|length | strftime_now('%Z|%z|%%z %f %Y') | 'aXbXc'.rsplit('X', 1) | 'abXXcXX'.rsplit('XX') | 'aXbXc'.rpartition('X') | 'abab'.rfind('ab') | 'é-é-é'.rsplit('-', 1) | 'aaa'.count('aa') | 'aaaa'|replace('aa', 'b')
""".strip()


def expressions():
    """The cells of EXPRESSIONS, cut where a | stands between blanks and no filter can follow it."""
    for line in EXPRESSIONS.splitlines():
        yield from line.split(" | ")


def tokenizer(template):
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "?": 2}, unk_token="?")),
        bos_token="<s>", eos_token="</s>")
    made.chat_template = template
    return made


def prompt(template, messages, settings):
    try:
        return {"text": tokenizer(template).apply_chat_template(
            json.loads(json.dumps(messages)), tokenize=False, **settings)}
    except Exception as failure:
        return {"error": f"{type(failure).__name__}: {failure}".split("\n")[0][:200]}


def expression(text):
    try:
        return {"text": utils._compile_jinja_template("{{ " + text + " }}").render()}
    except Exception as failure:
        return {"error": f"{type(failure).__name__}: {failure}".split("\n")[0][:200]}


def generations(template, messages):
    text, ranges = utils._render_with_assistant_indices(
        utils._compile_jinja_template(template), messages, None, None, False,
        bos_token="<s>", eos_token="</s>")
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in ranges]


def main():
    templates = {path.stem: path.read_text() for path in sorted((HERE / "templates").glob("*.jinja"))}
    golden = {
        "made_by": f"make.py with transformers {transformers.__version__}, jinja2 {jinja2.__version__}, "
                   f"Python {platform.python_version()}",
        "now": NOW,
        "conversations": CONVERSATIONS,
        "settings": SETTINGS,
        "templates": templates,
        "prompts": {name: {which: [prompt(text, messages, settings) for settings in SETTINGS]
                           for which, messages in CONVERSATIONS.items()}
                    for name, text in templates.items()},
        "expressions": [{"expression": text, **expression(text)} for text in expressions()],
        "generations": {name: {which: generations(text, CONVERSATIONS[which])
                               for which in ("one", "system", "turns", "tools")}
                        for name, text in templates.items() if "{% generation" in text},
    }
    assert len(templates) > 4 and len(golden["expressions"]) > 200
    (HERE / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
