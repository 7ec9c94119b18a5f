#include "runtime/template/jinja_template.hpp"

#include "runtime/template/parser.hpp"

namespace troupe::runtime {

jinja_template::jinja_template(std::string_view source, std::string name, const jinja::limits& may)
    : name_(std::move(name)), may_(may) {
  if (source.size() > may_.source)
    throw input_error(
        "{} has {} bytes: the maximum for a template is {}", name_, source.size(), may_.source);
  tree_ = std::make_shared<const jinja::statements>(
      jinja::parse(jinja::tokens_of(source, name_), name_));
}

rendered_template jinja_template::render(const nlohmann::ordered_json& variables,
                                         std::time_t now) const {
  jinja::meter use(name_, may_);
  jinja::evaluator::variables given;
  for (const auto& item : variables.items())
    given.emplace(item.key(), jinja::value_of(use, item.value()));
  jinja::evaluator with(use, std::move(given), now);
  with.run(*tree_);
  return {std::move(with.written()), std::move(with.generated())};
}

}  // namespace troupe::runtime
