// Fuzzes a chat template and a conversation.

#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/chat_template.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const std::string messages
      = R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Hi \u00e9"},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}], "n": [1, 2.5, null]}])";
  const std::vector<std::string> templates = {
      "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}\n"
      "<|{{ m['role'] | upper }}|>{{ m.content | string | trim }}{% endfor %}",
      "{%- macro f(a, b=[1, 2]) -%}{{ a ~ b | tojson(indent=2) }}{{ varargs | length }}{%- "
      "endmacro -%}\n"
      "{% set ns = namespace(n=0) %}{% for k, v in messages[0].items() if k != 'x' %}"
      "{% set ns.n = ns.n + loop.index %}{{ f(k, v, 3) }}{% endfor %}{{ -ns.n // 2 ** 3 }}",
      "{% set x %}a{% raw %}{{ }}{% endraw %}{% endset %}{% filter indent(2) %}{{ x }}\nb{% "
      "endfilter %}"
      "{{ messages | map(attribute='role') | list }}{{ 'a,b'.split(',')[::-1] | join }}"
      "{{ messages | selectattr('role', 'equalto', 'user') | first }}",
      "{% for m in messages[1:] %}{% generation %}{{ m.content }}{% endgeneration %}"
      "{% if m.role == 'user' and not loop.last %}{% continue %}{% endif %}{% break %}{% endfor %}"
      "{{ {'a': 1.5, 'b': (1,)} | dictsort | tojson }}{{ 'x' if none is none else 7 % 3 }}"};
  std::vector<std::string> out;
  for (const auto& one : templates)
    out.push_back(joined({one, messages}));
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"{% for i in range(99999) %}",
          "{% endfor %}",
          "{%- set ns.x = [ns.x, ns.x] -%}",
          "{{ f(f) }}",
          "| replace('a', 'aa')",
          "* 99999",
          "** 63",
          "9223372036854775807",
          "[::-1]",
          "| batch(2, ns)",
          "| unique",
          "| sort",
          "is sameas",
          "| int(base=36)",
          ".zfill(99)",
          "loop",
          "namespace()",
          "| tojson",
          "~ ns",
          "((((((((",
          "not not not ",
          "{#",
          "-%}",
          "\\x41"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 2);
  const auto messages = json_value_or_discarded(parts[1]);
  fuzz::accepted([&] {
    const jinja::limits few{.steps = 200'000, .text = 4 << 20, .output = 1 << 20};
    const jinja_template read(parts[0], "the template", few);
    const nlohmann::ordered_json given
        = {{"bos_token", "<s>"},
           {"messages",
            messages.is_array() ? ordered_json_value(parts[1]) : nlohmann::ordered_json::array()}};
    const auto first = read.render(given, 0), second = read.render(given, 0);
    fuzz::require(first.text == second.text, "a template always gives the same text");
    for (const auto& range : first.generations)
      fuzz::require(range.begin <= range.end && range.end <= first.text.size(),
                    "the assistant's texts lie within the prompt");
  });
  return 0;
}
