// The built-in names of templates: filters, tests, functions, methods of values, and operators.

#pragma once

#include "runtime/template/evaluator.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime::jinja {

/// Binds the arguments of one call to its parameters. All functions throw input_error, naming the
/// call, for missing, unknown or mistyped arguments.
class given_arguments {
 public:
  given_arguments(evaluator& with,
                  std::string_view call,
                  const arguments& given,
                  std::initializer_list<const char*> parameters);

  /// nullptr when the argument is not given.
  const value* operator[](std::size_t which) const {
    return found_[which] ? &*found_[which] : nullptr;
  }
  const value& required(std::size_t which) const;
  /// Counts a scan of the text by the meter.
  const std::string& text(std::size_t which) const;
  std::int64_t whole(std::size_t which, std::int64_t otherwise) const;
  bool truth(std::size_t which, bool otherwise) const;

 private:
  evaluator& with_;
  std::string call_;
  std::vector<const char*> names_;
  std::vector<std::optional<value>> found_;
};

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

value apply_filter(evaluator& with,
                   const std::string& name,
                   const value& to,
                   const arguments& given);
bool apply_test(evaluator& with, const std::string& name, const value& of, const arguments& given);

/// The function raise_exception, strftime_now, namespace, range or dict; nullopt for other names.
std::optional<value> global_function(std::string_view name);

/// The method of a text, dictionary or list, bound to the value; nullopt if its type does not have
/// the method.
std::optional<value> method_of(const value& of, const std::string& name);

/// Applies a binary operator such as a + b to two numbers, texts or lists. Throws input_error for
/// other types, and for integers beyond 64 bits.
value combined(evaluator& with, const std::string& by, const value& a, const value& b);
value negated(evaluator& with, const value& a);

/// x[from:to:step].
value sliced(evaluator& with,
             const value& of,
             const std::optional<std::int64_t>& from,
             const std::optional<std::int64_t>& to,
             const std::optional<std::int64_t>& step);

/// Throws input_error with the reason when `of` is undefined.
void require_defined(evaluator& with, const value& of);

}  // namespace troupe::runtime::jinja
