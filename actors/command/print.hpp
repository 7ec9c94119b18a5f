// Output of the commands on standard output. No other file of actors/ writes there
// (tests/architecture/output_test.py).

#pragma once

#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::command {

/// Prints text for people. Names in it may come from untrusted files, so control characters are
/// written as \x1b.
void print_page(std::string_view text);

template <class First, class... Others>
void print_page(fmt::format_string<First, Others...> form, First&& first, Others&&... others) {
  print_page(fmt::format(form, std::forward<First>(first), std::forward<Others>(others)...));
}

/// Prints JSON and a line end. Escapes control characters inside strings. Between values it
/// replaces control characters other than line ends with blanks. The value stays the same.
void print_json(std::string_view text);

/// Prints the bytes unchanged: a file format, or a text that is the requested result.
void print_data(std::string_view bytes);

}  // namespace troupe::command
