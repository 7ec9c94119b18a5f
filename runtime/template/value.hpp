// The values of a template: the subset of Python's values that chat templates need.

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
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime::jinja {

class evaluator;
class value;

struct none {};

/// A missing variable or element. It can be printed and tested; any other use fails with `why`.
struct undefined {
  std::shared_ptr<const std::string> why;
};

/// Kinds of sequences. `generator`: the result of a filter such as map, which can be iterated once.
enum class form { list, tuple, range, keys, values, items, generator };

struct sequence;
struct dictionary;
struct name_space;
struct loop_state;
struct function;

/// A value. Immutable except for namespaces and generators, as in the sandbox of Hugging Face
/// Transformers. Constants of a template are shared by threads; other values stay in the thread of
/// their rendering.
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
  /// A text marked by |safe, Jinja's Markup: concatenation escapes the other text for HTML.
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

  /// nullptr for other types.
  const std::string* text() const {
    const auto* pointer = as<text_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  bool is_marked() const { return marked_; }
  /// nullptr for other types.
  const sequence* elements() const {
    const auto* pointer = as<sequence_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  const dictionary* dict() const {
    const auto* pointer = as<dictionary_pointer>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  /// The value of an integer or boolean.
  std::optional<std::int64_t> whole() const;
  /// The value of any number.
  std::optional<double> real() const;
  /// True for a sequence of this form.
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

/// Owned by the evaluator, because a namespace can contain itself.
struct name_space {
  std::map<std::string, value, std::less<>> attributes;
};

struct sequence {
  form is = form::list;
  values items;
  int depth = 1;               ///< nesting depth
  std::string shown;           ///< for a range: its text
  mutable bool spent = false;  ///< for a generator: already iterated
};

/// Keeps the order of insertion.
struct dictionary {
  std::vector<std::pair<value, value>> items;
  /// Index in `items` by key_text; a map, because a template may choose keys of equal hashes.
  std::map<std::string, std::size_t> places;
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

/// A macro, a function, or a bound method.
struct function {
  std::string name;
  std::function<value(evaluator&, const arguments&)> call;
};

/// The variable `loop` of a for.
struct loop_state {
  values items;
  std::size_t index = 0;
};

/// Shorten names in `why` by `in_message`, because the value stores it.
value undefined_because(std::string why);
/// The first hundred bytes of a name, for messages.
std::string in_message(std::string_view name);

/// make_sequence and dictionary_builder throw input_error beyond maximum_depth.
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

/// A text that is equal for keys that are equal in Python. Throws input_error for unhashable
/// values.
std::string key_text(meter& use, const value& key);
/// The key text of a string key.
std::string key_text(std::string_view key);

/// Python's name of the type, for messages: 'str', 'dict'.
const char* type_name(const value& of);

bool truth(const value& of);
bool equal(meter& use, const value& a, const value& b);
/// a < b. Throws input_error for types without an order.
bool less(meter& use, const value& a, const value& b);
/// `element in all`.
bool contains(meter& use, const value& all, const value& element);

/// The iteration of a value: elements, keys or characters. Throws input_error for other types.
values elements_of(meter& use, const value& of);
/// len(). Throws input_error for types without a length.
std::int64_t size_of(meter& use, const value& of);

/// str() and repr().
std::string text_of(meter& use, const value& of);
std::string repr_of(meter& use, const value& of);

/// Converts JSON. Throws input_error for integers beyond 64 bits, and beyond maximum_depth.
value value_of(meter& use, const nlohmann::ordered_json& from);

struct json_style {
  bool ascii = false, sort_keys = false;
  std::optional<std::string> indent;  ///< per level; nullopt: everything on one line
  std::string between = ", ", after_key = ": ";
};
/// json.dumps(). Throws input_error for values that JSON cannot express.
std::string json_of(meter& use, const value& of, const json_style& style);

}  // namespace troupe::runtime::jinja
