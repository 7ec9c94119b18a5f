// What a command says on standard output. Nothing else in actors/ writes there
// (tests/architecture/output_test.py).

#pragma once

#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::command {

/// A text for people. Names in it come from files that nobody vouches for: what would steer the
/// terminal is written as \x1b.
void print_page(std::string_view text);

template <class First, class... Others>
void print_page(fmt::format_string<First, Others...> form, First&& first, Others&&... others) {
  print_page(fmt::format(form, std::forward<First>(first), std::forward<Others>(others)...));
}

/// JSON, and a line end. What would steer the terminal is escaped, the value is the same.
void print_json(std::string_view text);

/// The bytes as they are: of a file's format, or of a text that is itself what was asked for.
void print_data(std::string_view bytes);

}  // namespace troupe::command
