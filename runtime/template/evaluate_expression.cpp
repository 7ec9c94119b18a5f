#include "runtime/template/builtins.hpp"
#include "runtime/template/evaluator.hpp"
#include "runtime/template/text.hpp"

namespace troupe::runtime::jinja {
namespace {

std::optional<std::int64_t> bound_of(evaluator& with, const expression* of) {
  if (of == nullptr)
    return std::nullopt;
  const auto at = with.evaluate(*of);
  if (at.is<none>())
    return std::nullopt;
  require_defined(with, at);
  if (!at.whole())
    with.use.fail(fmt::format("a slice needs integers, not a '{}'", type_name(at)));
  return at.whole();
}

/// The index of element `key`, counted from the end if negative; nullopt beyond `size` elements.
std::optional<std::size_t> place(std::int64_t key, std::int64_t size) {
  if (key < 0)
    key += size;
  return key < 0 || key >= size ? std::nullopt : std::optional(std::size_t(key));
}

}  // namespace

value evaluator::evaluate(const expression& of) {
  const meter::level deeper(use);
  use.step();
  use.line = of.line;
  switch (of.kind) {
    case expression_kind::constant:
      return of.constant;
    case expression_kind::name:
      return evaluate_name(of);
    case expression_kind::list:
      return make_sequence(use, evaluate_all(of));
    case expression_kind::tuple:
      return make_sequence(use, evaluate_all(of), form::tuple);
    case expression_kind::dict:
      return evaluate_dict(of);
    case expression_kind::attribute:
      return attribute_of(evaluate(*of.parts[0]), of.text);
    case expression_kind::item: {
      const auto from = evaluate(*of.parts[0]);
      return item_of(from, evaluate(*of.parts[1]));
    }
    case expression_kind::slice:
      return evaluate_slice(of);
    case expression_kind::call:
      return evaluate_call(of);
    case expression_kind::filter: {
      const auto to = evaluate(*of.parts[0]);
      const auto given = evaluate_arguments(of);
      use.line = of.line;
      return apply_filter(*this, of.text, to, given);
    }
    case expression_kind::test: {
      const auto what = evaluate(*of.parts[0]);
      const auto given = evaluate_arguments(of);
      use.line = of.line;
      return apply_test(*this, of.text, what, given);
    }
    case expression_kind::unary:
      return evaluate_unary(of);
    case expression_kind::both: {
      auto first = evaluate(*of.parts[0]);
      return truth(first) ? evaluate(*of.parts[1]) : first;
    }
    case expression_kind::either: {
      auto first = evaluate(*of.parts[0]);
      return truth(first) ? first : evaluate(*of.parts[1]);
    }
    case expression_kind::conditional:
      if (truth(evaluate(*of.parts[0])))
        return evaluate(*of.parts[1]);
      if (of.parts[2] != nullptr)
        return evaluate(*of.parts[2]);
      return undefined_because("an if without an else has no value here");
    case expression_kind::comparison:
      return evaluate_comparison(of);
    case expression_kind::binary: {
      const auto left = evaluate(*of.parts[0]);
      const auto right = evaluate(*of.parts[1]);
      use.line = of.line;
      return combined(*this, of.text, left, right);
    }
    case expression_kind::join:
      return evaluate_join(of);
  }
  return none{};
}

values evaluator::evaluate_all(const expression& of, std::size_t first) {
  values out;
  for (auto i = first; i < of.parts.size(); ++i)
    out.push_back(evaluate(*of.parts[i]));
  return out;
}

arguments evaluator::evaluate_arguments(const expression& of) {
  arguments out{evaluate_all(of, 1), {}};
  for (const auto& [name, given] : of.named)
    out.named.emplace_back(name, evaluate(*given));
  return out;
}

value evaluator::evaluate_name(const expression& of) {
  use.step(of.text.size() / 64);
  if (const auto* found = find(of.text))
    return *found;
  if (auto function = global_function(of.text))
    return *function;
  return undefined_because(fmt::format("'{}' is undefined", in_message(of.text)));
}

value evaluator::evaluate_dict(const expression& of) {
  dictionary_builder out(use);
  for (std::size_t i = 0; i < of.parts.size(); i += 2) {
    const auto key = evaluate(*of.parts[i]);
    out.set(key, evaluate(*of.parts[i + 1]));
  }
  return out.finish();
}

value evaluator::evaluate_slice(const expression& of) {
  const auto from = evaluate(*of.parts[0]);
  const auto begin = bound_of(*this, of.parts[1].get());
  const auto end = bound_of(*this, of.parts[2].get());
  const auto step = bound_of(*this, of.parts[3].get());
  use.line = of.line;
  return sliced(*this, from, begin, end, step);
}

value evaluator::evaluate_call(const expression& of) {
  const auto callee = evaluate(*of.parts[0]);
  const auto given = evaluate_arguments(of);
  use.line = of.line;
  return call(callee, given);
}

value evaluator::call(const value& callee, const arguments& with) {
  require_defined(*this, callee);
  const auto* function = callee.as<std::shared_ptr<const jinja::function>>();
  if (function == nullptr)
    use.fail(fmt::format("a '{}' is called, but it is not a function", type_name(callee)));
  const auto keep = *function;  // the call may reassign the name
  return keep->call(*this, with);
}

value evaluator::evaluate_unary(const expression& of) {
  const auto what = evaluate(*of.parts[0]);
  if (of.text == "not")
    return !truth(what);
  if (of.text == "-")
    return jinja::negated(*this, what);
  require_defined(*this, what);
  if (const auto x = what.whole())
    return *x;
  if (!what.real())
    use.fail(fmt::format("a '{}' has no sign", type_name(what)));
  return what;
}

value evaluator::evaluate_comparison(const expression& of) {
  auto left = evaluate(*of.parts[0]);
  for (std::size_t i = 0; i < of.operators.size(); ++i) {
    const auto right = evaluate(*of.parts[i + 1]);
    const auto& by = of.operators[i];
    use.line = of.line;
    const bool holds = by == "=="       ? equal(use, left, right)
                       : by == "!="     ? !equal(use, left, right)
                       : by == "in"     ? contains(use, right, left)
                       : by == "not in" ? !contains(use, right, left)
                       : by == "<"      ? less(use, left, right)
                       : by == ">"      ? less(use, right, left)
                       : by == "<="     ? less(use, left, right) || equal(use, left, right)
                                        : less(use, right, left) || equal(use, left, right);
    if (!holds)
      return false;
    left = right;
  }
  return true;
}

value evaluator::evaluate_join(const expression& of) {
  std::string out;
  for (const auto& part : of.parts) {
    const auto text = text_of(use, evaluate(*part));
    use.make_text(text.size());
    out += text;
  }
  return out;
}

value evaluator::apply_filters(const expression& chain, const value& to) {
  const meter::level deeper(use);
  const auto before = chain.parts[0] == nullptr ? to : apply_filters(*chain.parts[0], to);
  const auto given = evaluate_arguments(chain);
  use.line = chain.line;
  return apply_filter(*this, chain.text, before, given);
}

value evaluator::loop_attribute(const std::shared_ptr<loop_state>& of, const std::string& name) {
  const auto size = std::int64_t(of->items.size());
  const auto index = std::int64_t(of->index);
  if (name == "index")
    return index + 1;
  if (name == "index0")
    return index;
  if (name == "revindex")
    return size - index;
  if (name == "revindex0")
    return size - index - 1;
  if (name == "first")
    return index == 0;
  if (name == "last")
    return index + 1 == size;
  if (name == "length")
    return size;
  if (name == "depth" || name == "depth0")  // constant: recursive loops are not supported
    return std::int64_t(name == "depth");
  if (name == "previtem")
    return index > 0 ? of->items[of->index - 1] : undefined_because("there is no previous item");
  if (name == "nextitem")
    return index + 1 < size ? of->items[of->index + 1] : undefined_because("there is no next item");
  if (name == "cycle") {
    auto made = std::make_shared<function>();
    made->name = "cycle";
    made->call = [at = of->index](evaluator& with, const arguments& given) {
      if (given.positional.empty())
        with.use.fail("loop.cycle needs values");
      return given.positional[at % given.positional.size()];
    };
    return std::shared_ptr<const function>(std::move(made));
  }
  if (name == "changed")
    use.fail("loop.changed is not supported");
  return undefined_because(fmt::format("'loop' has no attribute '{}'", in_message(name)));
}

value evaluator::attribute_of(const value& of, const std::string& name) {
  require_defined(*this, of);
  use.step(name.size() / 64);
  if (const auto* names = of.as<name_space*>()) {
    const auto at = (*names)->attributes.find(name);
    if (at != (*names)->attributes.end())
      return at->second;
  }
  if (const auto* loop = of.as<std::shared_ptr<loop_state>>())
    return loop_attribute(*loop, name);
  if (auto method = method_of(of, name))
    return *method;
  if (const auto* dict = of.dict())
    if (const auto* found = dict->find(key_text(name)))
      return *found;
  return undefined_because(
      fmt::format("'{} object' has no attribute '{}'", type_name(of), in_message(name)));
}

value evaluator::item_of(const value& of, const value& key) {
  require_defined(*this, of);
  if (const auto* dict = of.dict()) {
    const bool hashable = key.elements() == nullptr || key.has_form(form::tuple);
    if (hashable && key.dict() == nullptr && key.as<name_space*>() == nullptr)
      if (const auto* found = dict->find(key_text(use, key)))
        return *found;
  } else if (const auto number = key.whole()) {
    const auto* list = of.elements();
    if (list != nullptr && (list->is <= form::range))
      if (const auto at = place(*number, std::int64_t(list->items.size())))
        return list->items[*at];
    if (const auto* text = of.text()) {
      use.step(text->size() / 16);
      if (const auto at = place(*number, std::int64_t(length(*text)))) {
        auto begin = byte_of(*text, *at);
        const auto first = begin;
        next_character(*text, begin);
        return std::string_view(*text).substr(first, begin - first);
      }
    }
  }
  if (const auto* name = key.text()) {
    const bool has_names = of.is<name_space*>() || of.is<std::shared_ptr<loop_state>>();
    if (has_names)
      return attribute_of(of, *name);
    if (auto method = method_of(of, *name))
      return *method;
    return undefined_because(
        fmt::format("'{} object' has no attribute '{}'", type_name(of), in_message(*name)));
  }
  return undefined_because(
      fmt::format("a '{}' has no element {}",
                  type_name(of),
                  key.whole() ? fmt::format("{}", *key.whole()) : type_name(key)));
}

}  // namespace troupe::runtime::jinja
