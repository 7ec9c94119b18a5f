// What a template computes with: Python's values, as far as Jinja's chat templates need them.

#pragma once

#include "runtime/template/meter.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime::jinja {

class evaluator;
class value;

struct none {};

/// A variable or element that is not there. Using it beyond printing and asking is an error: `why`.
struct undefined {
  std::shared_ptr<const std::string> why;
};

/// A list and what behaves like one. `generator`: of a filter such as map, used up when it has been
/// gone through once.
enum class form { list, tuple, range, keys, values, items, generator };

struct sequence;
struct dictionary;
struct name_space;
struct loop_state;
struct function;

/// Immutable but for namespaces and generators, as in the sandbox of transformers. Values of a
/// template are shared by threads; those of a rendering stay in its thread.
class value {
 public:
  using sequence_pointer = std::shared_ptr<const sequence>;
  using dictionary_pointer = std::shared_ptr<const dictionary>;
  using text_pointer = std::shared_ptr<const std::string>;

  value() = default;
  value(none) : is_(none{}) {}
  value(undefined x) : is_(std::move(x)) {}
  value(bool x) : is_(x) {}
  value(std::int64_t x) : is_(x) {}
  value(double x) : is_(x) {}
  value(std::string x) : is_(std::make_shared<const std::string>(std::move(x))) {}
  value(std::string_view x) : value(std::string(x)) {}
  value(const char*) = delete;
  /// A text that |safe has marked, Jinja's Markup: what is added to it is escaped for HTML.
  static value marked(std::string x) {
    value out(std::move(x));
    out.marked_ = true;
    return out;
  }
  value(sequence_pointer x) : is_(std::move(x)) {}
  value(dictionary_pointer x) : is_(std::move(x)) {}
  value(name_space* x) : is_(x) {}
  value(std::shared_ptr<loop_state> x) : is_(std::move(x)) {}
  value(std::shared_ptr<const function> x) : is_(std::move(x)) {}

  template <class T>
  const T* as() const {
    return std::get_if<T>(&is_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(is_);
  }

  /// Nothing where it is no text.
  const std::string* text() const {
    const auto* pointer = as<text_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  bool is_marked() const { return marked_; }
  /// nullptr where it is none.
  const sequence* elements() const {
    const auto* pointer = as<sequence_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  const dictionary* dict() const {
    const auto* pointer = as<dictionary_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  /// Of an integer or a boolean.
  std::optional<std::int64_t> whole() const;
  /// Of any number.
  std::optional<double> real() const;
  /// A list or another sequence of this form.
  bool has_form(form which) const;

 private:
  std::variant<none,
               undefined,
               bool,
               std::int64_t,
               double,
               text_pointer,
               sequence_pointer,
               dictionary_pointer,
               name_space*,
               std::shared_ptr<loop_state>,
               std::shared_ptr<const function>>
      is_;
  bool marked_ = false;
};

using values = std::vector<value>;

/// Owned by the evaluator, because it alone can come to hold itself.
struct name_space {
  std::map<std::string, value, std::less<>> attributes;
};

struct sequence {
  form is = form::list;
  values items;
  int depth = 1;               ///< of the values within values
  std::string shown;           ///< of a range: its text
  mutable bool spent = false;  ///< of a generator
};

/// In the order of insertion.
struct dictionary {
  std::vector<std::pair<value, value>> items;
  std::unordered_map<std::string, std::size_t> places;  ///< by key_text
  int depth = 1;

  const value* find(const std::string& key) const {
    const auto at = places.find(key);
    return at == places.end() ? nullptr : &items[at->second].second;
  }
};

struct arguments {
  values positional;
  std::vector<std::pair<std::string, value>> named;
};

/// A macro, a function or the method of a value.
struct function {
  std::string name;
  std::function<value(evaluator&, const arguments&)> call;
};

/// `loop` within a for.
struct loop_state {
  values items;
  std::size_t index = 0;
};

/// `why` stays as long as the value: names in it are cut by `in_message`.
value undefined_because(std::string why);
/// A name as messages show it, the first hundred bytes of it.
std::string in_message(std::string_view name);

/// These throw input_error beyond maximum_depth.
value make_sequence(meter& use, values items, form is = form::list);
class dictionary_builder {
 public:
  explicit dictionary_builder(meter& use) : use_(use) {}
  void set(const value& key, const value& to);
  value finish();

 private:
  meter& use_;
  std::shared_ptr<dictionary> made_ = std::make_shared<dictionary>();
};

/// One text for all keys that Python holds for equal. Throws input_error for what has no hash.
std::string key_text(meter& use, const value& key);
/// The same for a text.
std::string key_text(std::string_view key);

/// Python's name of the type, for messages: 'str', 'dict'.
const char* type_name(const value& of);

bool truth(const value& of);
bool equal(meter& use, const value& a, const value& b);
/// a < b. Throws input_error for types that have no order.
bool less(meter& use, const value& a, const value& b);
/// `element in all`.
bool contains(meter& use, const value& all, const value& element);

/// What a for goes through: elements, keys, characters. Throws input_error for what is none.
values elements_of(meter& use, const value& of);
/// len(). Throws input_error for what has none.
std::int64_t size_of(meter& use, const value& of);

/// str() and repr().
std::string text_of(meter& use, const value& of);
std::string repr_of(meter& use, const value& of);

/// Throws input_error for numbers beyond 64 bits and for too many levels.
value value_of(meter& use, const nlohmann::ordered_json& from);

struct json_style {
  bool ascii = false, sort_keys = false;
  std::optional<std::string> indent;  ///< of one level; none: in one line
  std::string between = ", ", after_key = ": ";
};
/// json.dumps(). Throws input_error for what is not JSON.
std::string json_of(meter& use, const value& of, const json_style& style);

}  // namespace troupe::runtime::jinja
