// Templates: results compared with Jinja's (tests/golden/template/make.py), and refused ones.

#include "runtime/file/file.hpp"
#include "runtime/template/jinja_template.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using json = nlohmann::ordered_json;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const json& golden_templates() {
  static const auto loaded
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/template/golden.json"));
  return loaded;
}

std::string result_of(const std::string& source,
                      const json& variables = json::object(),
                      const jinja::limits& may = {}) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  return jinja_template(source, "the template", may)
      .render(variables, golden_templates().at("now").get<std::time_t>())
      .text;
}

void refuses_to_read(const std::string& source, const std::string& why) {
  INFO(source);
  CHECK_THROWS_MATCHES(
      jinja_template(source, "the template"), input_error, MessageMatches(ContainsSubstring(why)));
}

void refuses_to_render(const std::string& source,
                       const std::string& why,
                       const jinja::limits& may = {}) {
  INFO(source);
  const jinja_template read(source, "the template", may);
  CHECK_THROWS_MATCHES(read.render({{"x", "text"}, {"list", {1, 2}}}, 0),
                       input_error,
                       MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("expressions give the same results as in Jinja", "[template][golden]") {
  const auto& all = golden_templates().at("expressions");
  REQUIRE(all.size() > 200);
  for (const auto& one : all) {
    const auto source = "{{ " + one.at("expression").get<std::string>() + " }}";
    INFO(one.dump());
    if (one.contains("text"))
      CHECK(result_of(source) == one.at("text").get<std::string>());
    else
      CHECK_THROWS_AS(result_of(source), input_error);
  }
}

TEST_CASE("white space at tags is kept or removed as in Jinja", "[template]") {
  CHECK(result_of("a\n  {% if true %}\nb\n  {% endif %}\nc\n") == "a\nb\nc");
  CHECK(result_of("a\n  {%+ if true %}\nb{% endif +%}\nc") == "a\n  b\nc");
  CHECK(result_of("a \n {%- if true -%} \n b {%- endif %} c") == "ab c");
  CHECK(result_of("a {# b #}\nc{{ 1 }}\nd\n\n") == "a c1\nd\n");
  CHECK(result_of("x\n  {# b -#}  \n  c") == "x\nc");
  CHECK(result_of("  {{- ' y ' -}}  z\r\nw\r") == " y z\nw");
  CHECK(result_of("{% raw %} {{ x }} {% if %}\n{% endraw %}\nb") == " {{ x }} {% if %}\nb");
  CHECK(result_of("{%- raw -%} {{ x {%- endraw -%} b") == "{{ xb");
  CHECK(result_of("{{ {'a': {'b': 1}}['a'] }}") == "{'b': 1}");
}

TEST_CASE("a block has its own variables", "[template]") {
  CHECK(result_of("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i * 5 %}{{ x }} {% endfor "
                  "%}{{ x }}")
        == "15 110 1");
  CHECK(result_of("{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% "
                  "endfor %}{{ n.x }}")
        == "3");
  CHECK(result_of("{% if true %}{% set x = 2 %}{% endif %}{{ x }}") == "2");
  CHECK(result_of("{% set x = 1 %}{% macro f(a, b=x + 1) %}{{ a }}{{ b }}{{ x }}{% endmacro %}{% "
                  "set x = 5 %}{{ f(0) }} {{ f(b=1, a=2) }}")
        == "065 215");
  CHECK(result_of("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}") == "3False");
}

TEST_CASE("loops have loop variables, and break ends them", "[template]") {
  CHECK(result_of("{% for a, b in {'x': 1, 'y': 2}.items() %}{{ loop.index }}{{ loop.revindex0 "
                  "}}{{ a }}{{ b }}{{ loop.first }}{{ loop.last }};{% endfor %}")
        == "11x1TrueFalse;20y2FalseTrue;");
  CHECK(result_of("{% for i in range(9) if i is odd %}{% if i == 7 %}{% break %}{% elif i == 3 "
                  "%}{% continue %}{% endif %}{{ i }}/{{ loop.length }} {% else %}none{% endfor %}")
        == "1/4 5/4 ");
  CHECK(result_of("{% for i in [] %}x{% else %}none{% endfor %}") == "none");
  CHECK(result_of("{% for i in 'ab' %}{{ loop.previtem }}{{ i }}{{ loop.nextitem }} {{ "
                  "loop.cycle('p', 'q') }},{% endfor %}")
        == "ab p,ab q,");
}

TEST_CASE("unsupported features are named when the template is parsed", "[template]") {
  refuses_to_read("a\n{% if false %}{% include 'x' %}{% endif %}", "line 2: the tag {% include %}");
  refuses_to_read("{% import 'x' as y %}", "{% import %}");
  refuses_to_read("{% extends 'x' %}", "{% extends %}");
  refuses_to_read("{% call f() %}{% endcall %}", "{% call %}");
  refuses_to_read("{% for i in x recursive %}{% endfor %}", "recursive");
  refuses_to_read("\n\n{{ x|urlize }}", "line 3: the filter 'urlize'");
  refuses_to_read("{{ x|map('urlize') }}", "the filter 'urlize'");
  refuses_to_read("{{ x is frobnicated }}", "the test 'is frobnicated'");
  refuses_to_read("{{ x|selectattr('a', 'frobnicated') }}", "the test 'is frobnicated'");
  refuses_to_read("{{ x.encode('utf-8') }}", "the method encode()");
  refuses_to_read("{{ cycler(1, 2) }}", "the function cycler()");
  refuses_to_read("{{ f(*x) }}", "arguments by *");
  refuses_to_read("{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}",
                  "generation");
  refuses_to_read("{% break %}", "outside of a for");
  refuses_to_read("{{ 9223372036854775808 }}", "64 bits");
}

TEST_CASE("an invalid template is refused with its line", "[template]") {
  refuses_to_read("{% if x %}", "endif");
  refuses_to_read("{% endif %}", "{% endif %}");
  refuses_to_read("\n{{ x", "line 2: the tag {{ does not end");
  refuses_to_read("{# x", "#}");
  refuses_to_read("{% raw %}x", "endraw");
  refuses_to_read("{% raw %}{% endraw", "endraw");
  refuses_to_read("{{ 1 + }}", "a value");
  refuses_to_read("{{ (1 }}", "')'");
  refuses_to_read("{{ 'x }}", "string");
  refuses_to_read("{% set true = 1 %}", "'true' cannot be assigned to");
  refuses_to_read("{{ x $ }}", "'$'");
  refuses_to_read("\xff", "UTF-8");
  refuses_to_read("{{ " + std::string(1000, '(') + std::string(1000, ')') + " }}", "levels");
  refuses_to_read("{{ x" + std::string(1000, '.') + " }}", "attribute");
  std::string chain = "{{ 1";
  for (int i = 0; i < 1000; ++i)
    chain += " + 1";
  refuses_to_read(chain + " }}", "levels");
}

TEST_CASE("an untrusted template ends within its limit of memory", "[template]") {
  refuses_to_render(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "MiB");
  refuses_to_render(
      "{% set n = namespace(s='xxxxxxxx') %}{% for a in range(99) %}{% set n.s = n.s ~ n.s %}{% "
      "endfor %}",
      "MiB");
  refuses_to_render("{{ 'x' * 9999999999 }}", "MiB");
  refuses_to_render("{{ [1] * 9999999999 }}", "MiB");
  refuses_to_render("{{ range(1000000) }}", "range()");
  refuses_to_render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "levels");
  refuses_to_render(
      "{% set n = namespace(s=[]) %}{% for a in range(999) %}{% set n.s = [n.s] %}{% endfor %}",
      "levels");
  refuses_to_render("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "levels");
  refuses_to_render(
      "{% set n = namespace(s=[1]) %}{% for a in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor "
      "%}{{ n.s == n.s|list }}",
      "steps");
  refuses_to_render("{% for a in range(999) %}{{ 'x' * 99999 }}{% endfor %}",
                    "writes more than",
                    {.output = std::size_t{1} << 20});
  refuses_to_render("{{ 'aaaaaaaaaaaaaaaaaaaa'|indent(99999999999) }}", "MiB");
  CHECK_THROWS_AS(jinja_template(std::string(2000, 'x'), "t", {.source = 1000}), input_error);
}

TEST_CASE("bytes of lists and work on characters count before they are made and done",
          "[template]") {
  // A count stops each of them: the requested work would take a hundred times as much.
  constexpr jinja::limits bytes{.text = std::size_t{1} << 20}, steps{.steps = 2000};
  const std::string lines = "{% set s = '\\n' * 30000 %}", text = "{% set s = 'a' * 30000 %}",
                    controls = "{% set s = '\\x01' * 300000 %}";
  for (const auto* list : {"s.splitlines()",
                           "s.split('\\n')",
                           "s.rsplit('\\n')",
                           "s|list",
                           "s|batch(2)|list",
                           "s|map('upper')|list",
                           "s|unique|list"})
    refuses_to_render(lines + "{{ " + list + "|length }}", "MiB", bytes);
  for (const auto* list : {"[1] * 30000",
                           "(range(9999)|list) * 3",
                           "range(30000)",
                           "dict(range(9000)|batch(2))",
                           "range(9000)|map(attribute='x')|list"})
    refuses_to_render(std::string("{{ (") + list + ")|length }}", "MiB", bytes);
  refuses_to_render(lines + "{{ s|indent(40, true, true)|length }}", "MiB", bytes);
  refuses_to_render(
      "{% set s = '<' * 300000 %}{{ (('a'|safe) ~ s + 'b'|safe)|length }}", "MiB", bytes);
  for (const auto* written : {"s|tojson", "[s]|string", "'%r'|format(s)", "{s: 1}|tojson"})
    refuses_to_render(controls + "{{ (" + written + ")|length }}", "MiB", bytes);
  for (const auto* looks : {"s.upper()",
                            "s|title",
                            "s.isalpha()",
                            "s|wordcount",
                            "s is lower",
                            "s|tojson",
                            "[s]|string",
                            "s[::-1]",
                            "s[1:29999]",
                            "s.splitlines()"})
    refuses_to_render(text + "{{ " + looks + " }}", "steps", steps);
  // Each is repeated, because a single one stays within the limit of steps.
  for (const auto* repeats : {"'a'|trim(s)",
                              "'a'.lstrip(s)",
                              "s.ljust(3)",
                              "s.rjust(3)",
                              "s.zfill(3)",
                              "'a'.split(s)",
                              "'a'.rsplit(s)",
                              "'a'.find(s)",
                              "'a'.partition(s)",
                              "'a'.count(s)",
                              "'a'.removeprefix(s)",
                              "'a'.replace(s, '')",
                              "''|indent(s)",
                              "1|tojson(indent=s)",
                              "1|tojson(separators=[s, s])",
                              "namespace(d)"})
    refuses_to_render(text + "{% set d = {s: 1} %}{% for i in range(20) %}{% set x = " + repeats
                          + " %}{% endfor %}",
                      "steps",
                      steps);
  const std::string name(30000, 'a');
  for (const auto& set : {"{% set " + name + " = 1 %}", "{% set n." + name + " = 1 %}"})
    refuses_to_render(
        "{% for i in range(50) %}{% set n = namespace() %}" + set + "{% endfor %}", "steps", steps);
  refuses_to_render("{{ range(190)|sort|sort|sort|length }}", "steps", steps);
  CHECK(result_of("{{ 'xax'|trim('yx') }}{{ ' ab '.ljust(3) }}{{ 'ab'.zfill(3) }}|{{ "
                  "'a-b'.rsplit('-') }}{{ [1]|tojson(indent='-') }}")
        == "a ab 0ab|['a', 'b'][\n-1\n]");
}

TEST_CASE("an expensive untrusted template ends", "[template][unsanitized]") {
  // A comparison at each position of the text would take minutes.
  const std::string texts = "{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 ~ 'b' %}";
  CHECK(result_of(texts + "{{ b in a }} {{ a.find(b) }} {{ a.rfind('b' ~ b) }} {{ a.count(b) }}")
        == "False -1 -1 0");
  CHECK(result_of(texts
                  + "{{ a.split(b)|length }} {{ a.rsplit('b' ~ a[:2000000])|length }} "
                    "{{ a.partition(b)[1] }} {{ a|replace(b, '')|length }}")
        == "1 1  4000000");
  refuses_to_render(
      "{% set a = '1' * 9000000 %}{% for i in range(999) %}{% set x = a|int %}{% endfor %}",
      "steps");
  refuses_to_render(
      "{% set t = ('a',) * 90000 %}{% for i in range(90000) %}{% if 'b'.startswith(t) %}{% endif "
      "%}{% endfor %}",
      "steps");
  refuses_to_render(
      "{% set d = dict(range(50000)|map('string')|batch(2)|list) %}{% for i in range(90000) %}{% "
      "set n = namespace(d) %}{% endfor %}",
      "steps");
  refuses_to_render("{% set b = 'a' * 50000000 %}{{ range(100000)|map(attribute=b)|list|length }}",
                    "MiB");
  const std::string long_name(400000, 'a');
  for (const auto& missing : {long_name, "list." + long_name})
    refuses_to_render(
        "{% for i in range(90000) %}{% if " + missing + " is defined %}{% endif %}{% endfor %}",
        "steps");
  std::string names;
  for (int i = 0; i < 20000; ++i)
    names += fmt::format("{{% set v{} = 1 %}}", i);
  refuses_to_render(
      names + "{% for i in range(99999) %}{% for j in range(9) %}{{ y }}{% endfor %}{% endfor %}",
      "steps");
}

TEST_CASE("integers beyond 64 bits are refused", "[template]") {
  for (const auto* source : {"{{ 9223372036854775807 + 1 }}",
                             "{{ 9223372036854775807 * 2 }}",
                             "{{ -9223372036854775807 - 2 }}",
                             "{{ 2 ** 64 }}",
                             "{{ 1e30|int }}",
                             "{{ (-9223372036854775807 - 1) // -1 }}",
                             "{{ -(-9223372036854775807 - 1) }}"})
    refuses_to_render(source, "64 bits");
  CHECK_THROWS_AS(result_of("{{ x }}", json::parse(R"({"x": 18446744073709551615})")), input_error);
  CHECK_THROWS_AS(result_of("{{ x }}", json::parse(R"({"x": 100000000000000000000})")),
                  input_error);
}

TEST_CASE("an error shows the beginning of a long message and of a long name", "[template]") {
  const auto refusal = [](const std::string& source) -> std::string {
    try {
      return result_of(source);
    } catch (const input_error& e) {
      return e.what();
    }
  };
  const auto raised = refusal("{{ raise_exception('\u00e9' * 9000000) }}");
  CHECK(raised.size() < 5000);
  CHECK(raised.find("\u00e9... (rendered so far") != std::string::npos);
  CHECK(refusal("{{ raise_exception('short') }}").find("conversation: short (")
        != std::string::npos);
  const auto named = refusal("{{ " + std::string(9000, 'a') + ".b }}");
  CHECK(named.size() < 200);
  CHECK(named.find("aaa...' is undefined") != std::string::npos);
}

TEST_CASE("an error names the line and the text rendered so far", "[template]") {
  refuses_to_render("ab\n{{ raise_exception('roles must alternate') }}",
                    "the template, line 2: the template refuses the conversation: roles must "
                    "alternate (rendered so far: 'ab\\n')");
  refuses_to_render("\n{{ missing.x }}", "line 2: 'missing' is undefined");
  refuses_to_render("{{ x.y.z }}", "'str object' has no attribute 'y'");
  refuses_to_render("{{ list.append(1) }}", "a 'list' cannot be changed");
  refuses_to_render("{% set n = namespace(_a=1) %}", "'_a'");
}

TEST_CASE("a rendering leaves no state for the next", "[template]") {
  const jinja_template read("{% set n = namespace(x=y) %}{% set n.x = n.x + 1 %}{{ n.x }}", "t");
  CHECK(read.render({{"y", 1}}, 0).text == "2");
  CHECK(read.render({{"y", 1}}, 0).text == "2");
}
