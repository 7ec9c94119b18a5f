#include "runtime/core/shortened.hpp"
#include "runtime/template/builtins.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <array>
#include <ctime>

namespace troupe::runtime::jinja {
namespace {

constexpr std::size_t most_of_range = 100'000;  // as in Jinja's sandbox

/// The end of the rendered text, for a message.
std::string tail_of(const std::string& written) {
  constexpr std::size_t most = 200;
  auto from = written.size() > most ? written.size() - most : 0;
  while (from < written.size() && (static_cast<unsigned char>(written[from]) & 0xc0) == 0x80)
    ++from;
  std::string out = from > 0 ? "..." : "";
  quote(std::string_view(written).substr(from), [&](std::string_view part) { out += part; });
  return out;
}

value raise(evaluator& with, const arguments& given) {
  const given_arguments got(with, "raise_exception()", given, {"message"});
  with.use.fail(fmt::format("the template refuses the conversation: {} (rendered so far: {})",
                            shortened(text_of(with.use, got.required(0)), 4000),
                            tail_of(with.written())));
}

/// Converts a format for Python's datetime.now(), which has no time zone, for strftime.
std::string without_zone(const std::string& format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char how = format[i] == '%' && i + 1 < format.size() ? format[++i] : '\0';
    if (how == '\0')
      out += format[i];
    else if (how == 'f')
      out += "000000";  // the time has a resolution of seconds
    else if (how != 'z' && how != 'Z')
      out.append({'%', how});
  }
  return out;
}

value time_now(evaluator& with, const arguments& given) {
  const given_arguments got(with, "strftime_now()", given, {"format"});
  const auto format = without_zone(got.text(0));
  if (format.empty())
    return std::string();
  const auto now = with.now();
  std::tm parts = {};
  if (::localtime_r(&now, &parts) == nullptr)
    with.use.fail("the local time is not available");
  with.use.make_text(format.size() * 64);
  std::string out(format.size() * 64 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  if (!is_utf8(out))
    with.use.fail("the format of strftime_now gives a text that is not UTF-8");
  return out;
}

value name_space_of(evaluator& with, const arguments& given) {
  auto out = with.make_name_space();
  auto& names = (*out.as<name_space*>())->attributes;
  const auto add = [&](const std::string& name, const value& to) {
    if (name.starts_with('_'))
      with.use.fail(fmt::format("a namespace takes no name that begins with '_': '{}'", name));
    with.use.step(8);  // the memory is kept until the end
    with.use.make_text(name.size());
    names[name] = to;
  };
  for (const auto& from : given.positional) {
    if (from.dict() == nullptr || given.positional.size() > 1)
      with.use.fail("namespace() takes one dict, and names");
    for (const auto& [key, to] : from.dict()->items) {
      if (key.text() == nullptr)
        with.use.fail("the names of a namespace are texts");
      add(*key.text(), to);
    }
  }
  for (const auto& [name, to] : given.named)
    add(name, to);
  return out;
}

value range_of(evaluator& with, const arguments& given) {
  const auto count = given.positional.size();
  if (count < 1 || count > 3 || !given.named.empty())
    with.use.fail("range() takes one to three integers");
  std::array<std::int64_t, 3> at = {0, 0, 1};
  for (std::size_t i = 0; i < count; ++i) {
    require_defined(with, given.positional[i]);
    const auto number = given.positional[i].whole();
    if (!number)
      with.use.fail(
          fmt::format("range() takes integers, not a '{}'", type_name(given.positional[i])));
    at[count == 1 ? 1 : i] = *number;
  }
  const auto [begin, end, step] = at;
  if (step == 0)
    with.use.fail("the step of range() is 0");
  auto out = std::make_shared<sequence>();
  out->is = form::range;
  out->shown = step == 1 ? fmt::format("range({}, {})", begin, end)
                         : fmt::format("range({}, {}, {})", begin, end, step);
  auto next = begin;
  while (step > 0 ? next < end : next > end) {
    if (out->items.size() == most_of_range)
      with.use.fail(fmt::format("range() of more than {} numbers", most_of_range));
    out->items.emplace_back(next);
    if (__builtin_add_overflow(next, step, &next))
      break;
  }
  with.use.make_elements(out->items.size());
  return value::sequence_pointer(std::move(out));
}

value dict_of(evaluator& with, const arguments& given) {
  dictionary_builder out(with.use);
  if (given.positional.size() > 1)
    with.use.fail("dict() takes one dict or list of pairs, and names");
  if (!given.positional.empty()) {
    const auto& from = given.positional.front();
    require_defined(with, from);
    if (const auto* dict = from.dict())
      for (const auto& [key, to] : dict->items)
        out.set(key, to);
    else
      for (const auto& pair : elements_of(with.use, from)) {
        const auto both = elements_of(with.use, pair);
        if (both.size() != 2)
          with.use.fail("dict() takes a list of pairs");
        out.set(both[0], both[1]);
      }
  }
  for (const auto& [name, to] : given.named)
    out.set(value(name), to);
  return out.finish();
}

struct global {
  std::string_view name;
  value (*call)(evaluator&, const arguments&);
};

constexpr std::array<global, 5> globals = {{{"raise_exception", raise},
                                            {"strftime_now", time_now},
                                            {"namespace", name_space_of},
                                            {"range", range_of},
                                            {"dict", dict_of}}};

}  // namespace

std::optional<value> global_function(std::string_view name) {
  for (const auto& one : globals)
    if (one.name == name)
      return value(std::make_shared<const function>(function{std::string(name), one.call}));
  return std::nullopt;
}

given_arguments::given_arguments(evaluator& with,
                                 std::string_view call,
                                 const arguments& given,
                                 std::initializer_list<const char*> parameters)
    : with_(with), call_(call), names_(parameters), found_(parameters.size()) {
  if (given.positional.size() > names_.size())
    with.use.fail(
        fmt::format("{} takes {} arguments, not {}", call, names_.size(), given.positional.size()));
  for (std::size_t i = 0; i < given.positional.size(); ++i)
    found_[i] = given.positional[i];
  for (const auto& [name, to] : given.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end())
      with.use.fail(fmt::format("{} takes no argument '{}'", call, name));
    auto& place = found_[std::size_t(at - names_.begin())];
    if (place)
      with.use.fail(fmt::format("{}: '{}' is given twice", call, name));
    place = to;
  }
}

const value& given_arguments::required(std::size_t which) const {
  if (!found_[which])
    with_.use.fail(fmt::format("{} needs '{}'", call_, names_[which]));
  return *found_[which];
}

const std::string& given_arguments::text(std::size_t which) const {
  const auto& given = required(which);
  require_defined(with_, given);
  if (given.text() == nullptr)
    with_.use.fail(
        fmt::format("{}: '{}' must be a str, not a '{}'", call_, names_[which], type_name(given)));
  with_.use.look_at(given.text()->size());
  return *given.text();
}

std::int64_t given_arguments::whole(std::size_t which, std::int64_t otherwise) const {
  if (!found_[which])
    return otherwise;
  require_defined(with_, *found_[which]);
  if (!found_[which]->whole())
    with_.use.fail(fmt::format("{}: '{}' must be an integer, not a '{}'",
                               call_,
                               names_[which],
                               type_name(*found_[which])));
  return *found_[which]->whole();
}

bool given_arguments::truth(std::size_t which, bool otherwise) const {
  return found_[which] ? jinja::truth(*found_[which]) : otherwise;
}

}  // namespace troupe::runtime::jinja
