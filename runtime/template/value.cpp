#include "runtime/template/value.hpp"

#include "runtime/core/shortened.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime::jinja {
namespace {

int depth_of(const value& of) {
  if (const auto* list = of.elements())
    return list->depth;
  if (const auto* dict = of.dict())
    return dict->depth;
  return 0;
}

int deeper(meter& use, int before, const value& with) {
  const auto depth = std::max(before, depth_of(with) + 1);
  if (depth > maximum_depth)
    use.fail(fmt::format("a value has more than {} levels", maximum_depth));
  return depth;
}

bool equal_numbers(const value& a, const value& b) {
  if (const auto x = a.whole(), y = b.whole(); x && y)
    return *x == *y;
  return *a.real() == *b.real();
}

bool equal_sequences(meter& use, const sequence& a, const sequence& b) {
  if (a.is != b.is || a.is == form::values || a.is == form::generator)
    return &a == &b;
  return std::equal(a.items.begin(),
                    a.items.end(),
                    b.items.begin(),
                    b.items.end(),
                    [&](const value& x, const value& y) { return equal(use, x, y); });
}

bool equal_dictionaries(meter& use, const dictionary& a, const dictionary& b) {
  return a.items.size() == b.items.size()
         && std::all_of(a.places.begin(), a.places.end(), [&](const auto& place) {
              const auto* other = b.find(place.first);
              return other != nullptr && equal(use, a.items[place.second].second, *other);
            });
}

bool less_sequences(meter& use, const sequence& a, const sequence& b) {
  for (std::size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i)
    if (!equal(use, a.items[i], b.items[i]))
      return less(use, a.items[i], b.items[i]);
  return a.items.size() < b.items.size();
}

}  // namespace

std::optional<std::int64_t> value::whole() const {
  if (const auto* x = as<std::int64_t>())
    return *x;
  if (const auto* x = as<bool>())
    return std::int64_t(*x);
  return std::nullopt;
}

std::optional<double> value::real() const {
  if (const auto* x = as<double>())
    return *x;
  if (const auto x = whole())
    return double(*x);
  return std::nullopt;
}

bool value::has_form(form which) const {
  const auto* list = elements();
  return list != nullptr && list->is == which;
}

std::string in_message(std::string_view name) {
  return shortened(name, 100);
}

value undefined_because(std::string why) {
  return undefined{std::make_shared<const std::string>(std::move(why))};
}

value make_sequence(meter& use, values items, form is) {
  use.make_elements(items.size());
  auto out = std::make_shared<sequence>();
  out->is = is;
  for (const auto& item : items)
    out->depth = deeper(use, out->depth, item);
  out->items = std::move(items);
  return value::sequence_pointer(std::move(out));
}

void dictionary_builder::set(const value& key, const value& to) {
  use_.make_elements(2);
  made_->depth = deeper(use_, deeper(use_, made_->depth, key), to);
  const auto [at, is_new] = made_->places.try_emplace(key_text(use_, key), made_->items.size());
  if (is_new)
    made_->items.emplace_back(key, to);
  else
    made_->items[at->second].second = to;
}

value dictionary_builder::finish() {
  return value::dictionary_pointer(std::move(made_));
}

std::string key_text(std::string_view key) {
  return "s" + std::string(key);
}

std::string key_text(meter& use, const value& key) {
  use.step();
  if (const auto* text = key.text()) {
    use.make_text(text->size());
    return key_text(*text);
  }
  if (const auto x = key.whole())
    return fmt::format("n{}", *x);
  if (const auto* x = key.as<double>())
    return *x == std::floor(*x) && std::abs(*x) < 9e18 ? fmt::format("n{}", std::int64_t(*x))
                                                       : "r" + real_text(*x);
  if (key.is<none>())
    return "N";
  if (key.is<undefined>())
    return "U";
  if (key.has_form(form::tuple)) {
    std::string out = "t";
    for (const auto& item : key.elements()->items) {
      const auto part = key_text(use, item);
      use.make_text(part.size() + 20);
      out += fmt::format("{}:{}", part.size(), part);
    }
    return out;
  }
  use.fail(fmt::format("a '{}' cannot be a key of a dict", type_name(key)));
}

const char* type_name(const value& of) {
  if (of.is<none>())
    return "NoneType";
  if (of.is<undefined>())
    return "Undefined";
  if (of.is<bool>())
    return "bool";
  if (of.is<std::int64_t>())
    return "int";
  if (of.is<double>())
    return "float";
  if (of.text() != nullptr)
    return "str";
  if (of.dict() != nullptr)
    return "dict";
  if (of.is<name_space*>())
    return "Namespace";
  if (of.is<std::shared_ptr<loop_state>>())
    return "LoopContext";
  if (const auto* list = of.elements())
    switch (list->is) {
      case form::list:
        return "list";
      case form::tuple:
        return "tuple";
      case form::range:
        return "range";
      case form::keys:
        return "dict_keys";
      case form::values:
        return "dict_values";
      case form::items:
        return "dict_items";
      case form::generator:
        return "generator";
    }
  return "function";
}

bool truth(const value& of) {
  if (const auto* x = of.as<bool>())
    return *x;
  if (const auto* x = of.as<std::int64_t>())
    return *x != 0;
  if (const auto* x = of.as<double>())
    return *x != 0;
  if (const auto* text = of.text())
    return !text->empty();
  if (const auto* list = of.elements())
    return list->is == form::generator || !list->items.empty();
  if (const auto* dict = of.dict())
    return !dict->items.empty();
  return !of.is<none>() && !of.is<undefined>();
}

bool equal(meter& use, const value& a, const value& b) {
  use.step();
  const meter::level deeper_by_one(use);
  if (a.real() && b.real())
    return equal_numbers(a, b);
  if (const auto* x = a.text(), *y = b.text(); x != nullptr && y != nullptr) {
    use.step(std::min(x->size(), y->size()) / 64);
    return *x == *y;
  }
  if (a.is<none>() || b.is<none>())
    return a.is<none>() && b.is<none>();
  if (a.is<undefined>() || b.is<undefined>())
    return a.is<undefined>() && b.is<undefined>();
  if (const auto* x = a.elements(), *y = b.elements(); x != nullptr && y != nullptr)
    return equal_sequences(use, *x, *y);
  if (const auto* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr)
    return equal_dictionaries(use, *x, *y);
  if (const auto* x = a.as<name_space*>(), *y = b.as<name_space*>(); x != nullptr && y != nullptr)
    return *x == *y;
  return false;
}

bool less(meter& use, const value& a, const value& b) {
  use.step();
  const meter::level deeper_by_one(use);
  if (const auto x = a.whole(), y = b.whole(); x && y)
    return *x < *y;
  if (const auto x = a.real(), y = b.real(); x && y)
    return *x < *y;
  if (const auto* x = a.text(), *y = b.text(); x != nullptr && y != nullptr) {
    use.step(std::min(x->size(), y->size()) / 64);
    return *x < *y;
  }
  if (a.is<undefined>() || b.is<undefined>())
    use.fail(*(a.is<undefined>() ? a : b).as<undefined>()->why);
  for (const auto which : {form::list, form::tuple})
    if (a.has_form(which) && b.has_form(which))
      return less_sequences(use, *a.elements(), *b.elements());
  use.fail(fmt::format("a '{}' and a '{}' have no order", type_name(a), type_name(b)));
}

bool contains(meter& use, const value& all, const value& element) {
  use.step();
  if (const auto* text = all.text()) {
    const auto* part = element.text();
    if (part == nullptr)
      use.fail(
          fmt::format("'in <string>' needs a string on its left, not a '{}'", type_name(element)));
    use.step(text->size() / 16);
    return first_of(*text, *part) != std::string::npos;
  }
  if (const auto* dict = all.dict())
    return dict->find(key_text(use, element)) != nullptr;
  if (all.is<undefined>())
    return false;
  for (const auto& item : elements_of(use, all))
    if (equal(use, item, element))
      return true;
  return false;
}

values elements_of(meter& use, const value& of) {
  if (const auto* list = of.elements()) {
    if (list->is == form::generator && std::exchange(list->spent, true))
      return {};
    use.make_elements(list->items.size());
    return list->items;
  }
  values out;
  if (const auto* dict = of.dict()) {
    use.make_elements(dict->items.size());
    for (const auto& item : dict->items)
      out.push_back(item.first);
    return out;
  }
  if (const auto* text = of.text()) {
    use.step(text->size());
    for (std::size_t at = 0; at < text->size();) {
      const auto begin = at;
      next_character(*text, at);
      use.make_part(at - begin);
      out.emplace_back(std::string_view(*text).substr(begin, at - begin));
    }
    return out;
  }
  if (of.is<undefined>())
    return out;
  if (const auto* loop = of.as<std::shared_ptr<loop_state>>(); loop != nullptr)
    use.fail("iterating over `loop` itself is not supported");
  use.fail(fmt::format("a '{}' has no elements to iterate over", type_name(of)));
}

std::int64_t size_of(meter& use, const value& of) {
  if (const auto* text = of.text()) {
    use.step(text->size() / 64);
    return std::int64_t(length(*text));
  }
  if (const auto* list = of.elements(); list != nullptr && list->is != form::generator)
    return std::int64_t(list->items.size());
  if (const auto* dict = of.dict())
    return std::int64_t(dict->items.size());
  if (const auto* loop = of.as<std::shared_ptr<loop_state>>())
    return std::int64_t((*loop)->items.size());
  if (of.is<undefined>())
    return 0;
  use.fail(fmt::format("a '{}' has no length", type_name(of)));
}

}  // namespace troupe::runtime::jinja
