// Filters of lists and other values with elements.

#include "runtime/template/filters.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <charconv>

namespace troupe::runtime::jinja {
namespace {

/// Resolves an `attribute` argument of Jinja, such as "a.b" or 3, on an element.
value attribute_path(evaluator& with, const value& of, const value& path) {
  if (path.whole())
    return with.item_of(of, path);
  if (path.text() == nullptr)
    with.use.fail("an 'attribute' must be a name");
  with.use.make_part(path.text()->size());
  auto out = of;
  std::string_view rest = *path.text();
  for (;;) {
    const auto part = rest.substr(0, rest.find('.'));
    std::int64_t number = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool digits = read.ec == std::errc() && is_digits(part);  // the faster one first
    out = with.item_of(out, digits ? value(number) : value(part));
    if (part.size() == rest.size())
      return out;
    rest.remove_prefix(part.size() + 1);
  }
}

value folded(evaluator& with, const value& of) {
  if (of.text() == nullptr)
    return of;
  with.use.make_part(of.text()->size());
  with.use.look_at(of.text()->size());
  return lower(*of.text());
}

/// The sort key: the element or its attribute, case-folded unless `case_matters`.
value sort_key(evaluator& with, const value& item, const value* attribute, bool case_matters) {
  if (attribute == nullptr || attribute->is<none>())
    return case_matters ? item : folded(with, item);
  if (attribute->text() == nullptr || attribute->text()->find(',') == std::string::npos) {
    const auto key = attribute_path(with, item, *attribute);
    return case_matters ? key : folded(with, key);
  }
  values keys;
  for (std::string_view rest = *attribute->text();;) {
    const auto part = rest.substr(0, rest.find(','));
    const auto key = attribute_path(with, item, value(part));
    keys.push_back(case_matters ? key : folded(with, key));
    if (part.size() == rest.size())
      return make_sequence(with.use, std::move(keys));
    rest.remove_prefix(part.size() + 1);
  }
}

struct keyed {
  value key, item;
};

/// A merge sort: stays within bounds even for an inconsistent order (nan).
void sort_keyed(evaluator& with, std::vector<keyed>& all, bool backwards) {
  std::vector<keyed> from = std::move(all), to(from.size());
  const auto before = [&](const keyed& a, const keyed& b) {
    return backwards ? less(with.use, b.key, a.key) : less(with.use, a.key, b.key);
  };
  for (std::size_t width = 1; width < from.size(); width *= 2) {
    for (std::size_t left = 0; left < from.size(); left += 2 * width) {
      const auto middle = std::min(left + width, from.size());
      const auto end = std::min(left + 2 * width, from.size());
      auto i = left, j = middle;
      for (auto k = left; k < end; ++k) {
        const bool right = i == middle || (j < end && before(from[j], from[i]));
        with.use.step();
        to[k] = std::move(from[right ? j++ : i++]);
      }
    }
    std::swap(from, to);
  }
  all = std::move(from);
}

value sort(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|sort", given, {"reverse", "case_sensitive", "attribute"});
  std::vector<keyed> all;
  for (const auto& item : elements_of(with.use, to))
    all.push_back({sort_key(with, item, got[2], got.truth(1, false)), item});
  sort_keyed(with, all, got.truth(0, false));
  values out;
  for (auto& one : all)
    out.push_back(std::move(one.item));
  return make_sequence(with.use, std::move(out));
}

value dict_sort(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|dictsort", given, {"case_sensitive", "by", "reverse"});
  require_defined(with, to);
  if (to.dict() == nullptr)
    with.use.fail(fmt::format("|dictsort of a '{}'", type_name(to)));
  const auto by = got[1] != nullptr ? got.text(1) : "key";
  if (by != "key" && by != "value")
    with.use.fail("|dictsort: 'by' must be key or value");
  std::vector<keyed> all;
  for (const auto& [key, is] : to.dict()->items)
    all.push_back({sort_key(with, by == "key" ? key : is, nullptr, got.truth(0, false)),
                   make_sequence(with.use, {key, is}, form::tuple)});
  sort_keyed(with, all, got.truth(2, false));
  values out;
  for (auto& one : all)
    out.push_back(std::move(one.item));
  return make_sequence(with.use, std::move(out));
}

value unique(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|unique", given, {"case_sensitive", "attribute"});
  std::map<std::string, bool> seen;
  values out;
  for (const auto& item : elements_of(with.use, to)) {
    with.use.make_part(0);
    if (seen.emplace(key_text(with.use, sort_key(with, item, got[1], got.truth(0, false))), true)
            .second)
      out.push_back(item);
  }
  return make_sequence(with.use, std::move(out), form::generator);
}

value extreme(evaluator& with, const value& to, const arguments& given, bool largest) {
  const given_arguments got(
      with, largest ? "|max" : "|min", given, {"case_sensitive", "attribute"});
  const auto items = elements_of(with.use, to);
  if (items.empty())
    return undefined_because("No aggregated item, sequence was empty.");
  auto best = items.front();
  auto key = sort_key(with, best, got[1], got.truth(0, false));
  for (std::size_t i = 1; i < items.size(); ++i) {
    const auto other = sort_key(with, items[i], got[1], got.truth(0, false));
    if (largest ? less(with.use, key, other) : less(with.use, other, key)) {
      best = items[i];
      key = other;
    }
  }
  return best;
}

value sum(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|sum", given, {"attribute", "start"});
  auto out = got[1] != nullptr ? *got[1] : value(std::int64_t{0});
  for (const auto& item : elements_of(with.use, to))
    out = combined(
        with,
        "+",
        out,
        got[0] == nullptr || got[0]->is<none>() ? item : attribute_path(with, item, *got[0]));
  return out;
}

value join(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|join", given, {"d", "attribute"});
  const auto between = got[0] != nullptr ? text_of(with.use, *got[0]) : std::string();
  std::string out;
  bool first = true;
  for (const auto& item : elements_of(with.use, to)) {
    const auto text = text_of(
        with.use,
        got[1] == nullptr || got[1]->is<none>() ? item : attribute_path(with, item, *got[1]));
    with.use.make_text(between.size() + text.size());
    if (!std::exchange(first, false))
      out += between;
    out += text;
  }
  return out;
}

/// The elements, or nothing for a false value such as none, as in these filters of Jinja.
values elements_or_none(evaluator& with, const value& of) {
  return truth(of) ? elements_of(with.use, of) : values();
}

value map(evaluator& with, const value& to, const arguments& given) {
  values out;
  if (given.positional.empty()) {
    const given_arguments got(with, "|map", given, {"attribute", "default"});
    got.required(0);
    for (const auto& item : elements_or_none(with, to)) {
      auto found = attribute_path(with, item, *got[0]);
      out.push_back(found.is<undefined>() && got[1] != nullptr ? *got[1] : std::move(found));
    }
  } else {
    const auto* name = given.positional.front().text();
    if (name == nullptr)
      with.use.fail("|map needs the name of a filter");
    const arguments inner{{given.positional.begin() + 1, given.positional.end()}, given.named};
    for (const auto& item : elements_or_none(with, to))
      out.push_back(apply_filter(with, *name, item, inner));
  }
  return make_sequence(with.use, std::move(out), form::generator);
}

/// |select, |reject, |selectattr, |rejectattr: keeps elements if the test gives `wanted`. `by`:
/// tests the attribute named by the first argument.
value chosen(evaluator& with, const value& to, const arguments& given, bool by, bool wanted) {
  auto rest = given;
  value path;
  if (by) {
    if (rest.positional.empty())
      with.use.fail("|selectattr and |rejectattr need the name of an attribute");
    path = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    if (rest.positional.front().text() == nullptr)
      with.use.fail("|select and |reject need the name of a test");
    test = *rest.positional.front().text();
    rest.positional.erase(rest.positional.begin());
  }
  values out;
  for (const auto& item : elements_or_none(with, to)) {
    const auto what = by ? attribute_path(with, item, path) : item;
    if ((test ? apply_test(with, *test, what, rest) : truth(what)) == wanted)
      out.push_back(item);
  }
  return make_sequence(with.use, std::move(out), form::generator);
}

value list(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|list", given, {});
  return make_sequence(with.use, elements_of(with.use, to));
}

value items(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|items", given, {});
  if (to.dict() == nullptr && !to.is<undefined>())
    with.use.fail(fmt::format("|items of a '{}': only a dict has items", type_name(to)));
  values out;
  if (to.dict() != nullptr)
    for (const auto& [key, is] : to.dict()->items)
      out.push_back(make_sequence(with.use, {key, is}, form::tuple));
  return make_sequence(with.use, std::move(out), form::generator);
}

value size(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|length", given, {});
  return size_of(with.use, to);
}

value first(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|first", given, {});
  const auto all = elements_of(with.use, to);
  return all.empty() ? undefined_because("No first item, sequence was empty.") : all.front();
}

value last(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|last", given, {});
  if (to.has_form(form::generator))
    with.use.fail("|last of another filter's result: put |list before it");
  const auto all = elements_of(with.use, to);
  return all.empty() ? undefined_because("No last item, sequence was empty.") : all.back();
}

value reverse(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|reverse", given, {});
  auto all = elements_of(with.use, to);
  std::reverse(all.begin(), all.end());
  if (to.text() == nullptr)
    return make_sequence(with.use, std::move(all), form::generator);
  std::string out;
  for (const auto& character : all)
    out += *character.text();
  with.use.make_text(out.size());
  return out;
}

value batch(evaluator& with, const value& to, const arguments& given) {
  const given_arguments got(with, "|batch", given, {"linecount", "fill_with"});
  got.required(0);
  const auto count = std::max<std::int64_t>(got.whole(0, 1), 1);
  values out, row;
  const auto finish = [&] {
    while (got[1] != nullptr && !got[1]->is<none>() && std::int64_t(row.size()) < count) {
      with.use.step();
      row.push_back(*got[1]);
    }
    out.push_back(make_sequence(with.use, std::exchange(row, {})));
  };
  for (const auto& item : elements_of(with.use, to)) {
    row.push_back(item);
    if (std::int64_t(row.size()) == count)
      finish();
  }
  if (!row.empty())
    finish();
  return make_sequence(with.use, std::move(out), form::generator);
}

}  // namespace

#define TROUPE_JINJA_FILTER(result) \
  [](evaluator& with, const value& to, const arguments& given) -> value { return result; }

filter_table filters_of_lists() {
  return {{"sort", sort},
          {"dictsort", dict_sort},
          {"unique", unique},
          {"sum", sum},
          {"join", join},
          {"map", map},
          {"list", list},
          {"items", items},
          {"length", size},
          {"count", size},
          {"first", first},
          {"last", last},
          {"reverse", reverse},
          {"batch", batch},
          {"max", TROUPE_JINJA_FILTER(extreme(with, to, given, true))},
          {"min", TROUPE_JINJA_FILTER(extreme(with, to, given, false))},
          {"select", TROUPE_JINJA_FILTER(chosen(with, to, given, false, true))},
          {"reject", TROUPE_JINJA_FILTER(chosen(with, to, given, false, false))},
          {"selectattr", TROUPE_JINJA_FILTER(chosen(with, to, given, true, true))},
          {"rejectattr", TROUPE_JINJA_FILTER(chosen(with, to, given, true, false))}};
}

#undef TROUPE_JINJA_FILTER

}  // namespace troupe::runtime::jinja
