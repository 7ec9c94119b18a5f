// The tables of filters, implemented in filters.cpp and filters_of_lists.cpp.

#pragma once

#include "runtime/template/builtins.hpp"
#include "runtime/template/text.hpp"

#include <functional>
#include <map>
#include <string>

namespace troupe::runtime::jinja {

using filter = value (*)(evaluator&, const value&, const arguments&);
using filter_table = std::map<std::string, filter, std::less<>>;

filter_table filters_of_texts();
filter_table filters_of_lists();

/// The filter trim and the methods strip, lstrip and rstrip.
std::string_view stripped_by(evaluator& with,
                             std::string_view text,
                             const given_arguments& got,
                             side from);

/// Repeats a text; empty if `times` is negative.
std::string repeat_text(evaluator& with, std::string_view text, std::int64_t times);

}  // namespace troupe::runtime::jinja
