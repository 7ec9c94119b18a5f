#include "runtime/template/text.hpp"
#include "runtime/template/value.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime::jinja {
namespace {

/// A text that grows within the limits of the meter.
class written {
 public:
  explicit written(meter& use) : use_(use) {}
  void add(std::string_view more) {
    use_.make_text(more.size());
    text += more;
  }
  std::string text;

 private:
  meter& use_;
};

void write_repr(meter& use, written& out, const value& of);

void write_list(meter& use, written& out, const sequence& list) {
  const bool tuple = list.is == form::tuple;
  out.add(tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0)
      out.add(", ");
    write_repr(use, out, list.items[i]);
  }
  if (tuple && list.items.size() == 1)
    out.add(",");
  out.add(tuple ? ")" : "]");
}

void write_sequence(meter& use, written& out, const value& of) {
  const auto& list = *of.elements();
  if (list.is == form::generator)
    use.fail("a filter's result is printed: put |list or |join after it");
  if (list.is == form::range)
    return out.add(list.shown);
  if (list.is == form::list || list.is == form::tuple)
    return write_list(use, out, list);
  out.add(fmt::format("{}(", type_name(of)));
  write_list(use, out, list);
  out.add(")");
}

void write_dictionary(meter& use, written& out, const dictionary& dict) {
  out.add("{");
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0)
      out.add(", ");
    write_repr(use, out, dict.items[i].first);
    out.add(": ");
    write_repr(use, out, dict.items[i].second);
  }
  out.add("}");
}

void write_name_space(meter& use, written& out, const name_space& names) {
  dictionary_builder all(use);
  for (const auto& item : names.attributes)
    all.set(value(item.first), item.second);
  if (names.attributes.size() > 1)
    use.fail("a namespace of several names is printed: print its names one by one");
  out.add("<Namespace ");
  write_repr(use, out, all.finish());
  out.add(">");
}

void write_repr(meter& use, written& out, const value& of) {
  const meter::level deeper_by_one(use);
  use.step();
  if (of.is<none>())
    return out.add("None");
  if (of.is<undefined>())
    return out.add("Undefined");
  if (const auto* x = of.as<bool>())
    return out.add(*x ? "True" : "False");
  if (const auto* x = of.as<std::int64_t>())
    return out.add(fmt::format("{}", *x));
  if (const auto* x = of.as<double>())
    return out.add(real_text(*x));
  if (const auto* x = of.text()) {
    use.look_at(x->size());
    out.add(of.is_marked() ? "Markup(" : "");
    quote(*x, [&](std::string_view part) { out.add(part); });
    return out.add(of.is_marked() ? ")" : "");
  }
  if (of.elements() != nullptr)
    return write_sequence(use, out, of);
  if (const auto* x = of.dict())
    return write_dictionary(use, out, *x);
  if (const auto* x = of.as<name_space*>())
    return write_name_space(use, out, **x);
  use.fail(fmt::format("a '{}' is printed: is a call's () missing?", type_name(of)));
}

class json_writer {
 public:
  json_writer(meter& use, const json_style& style) : use_(use), style_(style), out_(use) {}

  std::string write(const value& of) {
    add(of, 0);
    return std::move(out_.text);
  }

 private:
  void add(const value& of, int level) {
    const meter::level deeper_by_one(use_);
    use_.step();
    if (of.is<none>())
      return out_.add("null");
    if (const auto* x = of.as<bool>())
      return out_.add(*x ? "true" : "false");
    if (const auto* x = of.as<std::int64_t>())
      return out_.add(fmt::format("{}", *x));
    if (const auto* x = of.as<double>())
      return out_.add(number(*x));
    if (const auto* x = of.text())
      return add_text(*x);
    if (of.has_form(form::list) || of.has_form(form::tuple))
      return add_list(*of.elements(), level);
    if (const auto* x = of.dict())
      return add_object(*x, level);
    use_.fail(of.is<undefined>() ? *of.as<undefined>()->why + ", and cannot become JSON"
                                 : fmt::format("a '{}' cannot become JSON", type_name(of)));
  }

  void add_text(std::string_view text) {
    use_.look_at(text.size());
    json_quote(text, style_.ascii, [&](std::string_view part) { out_.add(part); });
  }

  static std::string number(double x) {
    if (std::isnan(x))
      return "NaN";
    if (std::isinf(x))
      return x > 0 ? "Infinity" : "-Infinity";
    return real_text(x);
  }

  void break_line(int level) {
    if (!style_.indent)
      return;
    out_.add("\n");
    for (int i = 0; i < level; ++i)
      out_.add(*style_.indent);
  }

  void add_list(const sequence& list, int level) {
    if (list.items.empty())
      return out_.add("[]");
    out_.add("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0)
        out_.add(style_.between);
      break_line(level + 1);
      add(list.items[i], level + 1);
    }
    break_line(level);
    out_.add("]");
  }

  std::string key(const value& of) {
    if (const auto* text = of.text())
      return *text;
    if (const auto* x = of.as<bool>())
      return *x ? "true" : "false";
    if (const auto* x = of.as<std::int64_t>())
      return fmt::format("{}", *x);
    if (const auto* x = of.as<double>())
      return number(*x);
    if (of.is<none>())
      return "null";
    use_.fail(fmt::format("a key of JSON cannot be a '{}'", type_name(of)));
  }

  void add_object(const dictionary& dict, int level) {
    if (dict.items.empty())
      return out_.add("{}");
    use_.make_elements(2 * dict.items.size());
    auto items = dict.items;
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
        return less(use_, a.first, b.first);
      });
    out_.add("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0)
        out_.add(style_.between);
      break_line(level + 1);
      add_text(key(items[i].first));
      out_.add(style_.after_key);
      add(items[i].second, level + 1);
    }
    break_line(level);
    out_.add("}");
  }

  meter& use_;
  const json_style& style_;
  written out_;
};

}  // namespace

std::string text_of(meter& use, const value& of) {
  if (const auto* text = of.text()) {
    use.make_text(text->size());
    return *text;
  }
  if (of.is<undefined>())
    return "";
  return repr_of(use, of);
}

std::string repr_of(meter& use, const value& of) {
  written out(use);
  write_repr(use, out, of);
  return std::move(out.text);
}

std::string json_of(meter& use, const value& of, const json_style& style) {
  return json_writer(use, style).write(of);
}

value value_of(meter& use, const nlohmann::ordered_json& from) {
  const meter::level deeper_by_one(use);
  switch (from.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return from.get<bool>();
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (from.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
        use.fail(fmt::format("the integer {} needs more than 64 bits: write it as a string",
                             from.get<std::uint64_t>()));
      return from.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_integer:
      return from.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_float:
      // The JSON parser turns an integer beyond 64 bits into a float.
      if (const auto x = from.get<double>(); std::abs(x) >= 9.2e18 && std::abs(x) < 1e40)
        use.fail(
            fmt::format("the number {} may be an integer of more than 64 bits: write it as a "
                        "string",
                        x));
      return from.get<double>();
    case nlohmann::ordered_json::value_t::string:
      if (!is_utf8(from.get_ref<const std::string&>()))
        use.fail("a text that is given to the template is not UTF-8");
      return value(from.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      values items;
      for (const auto& item : from)
        items.push_back(value_of(use, item));
      return make_sequence(use, std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      dictionary_builder out(use);
      for (const auto& item : from.items())
        out.set(value(item.key()), value_of(use, item.value()));
      return out.finish();
    }
    default:
      return none{};
  }
}

}  // namespace troupe::runtime::jinja
