// Texts as Python has them: UTF-8 here, counted and cut by characters (code points).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime::jinja {

/// Number of characters of a UTF-8 text; of other bytes, of those that do not continue one.
std::size_t length(std::string_view text);

/// The byte at which character number `index` begins; the size of the text where it has fewer.
std::size_t byte_of(std::string_view text, std::size_t index);

/// The character at byte `at`, which moves behind it. A byte that begins none is its own value.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& to, char32_t character);

/// False for bytes that are not UTF-8 as RFC 3629 has it.
bool is_utf8(std::string_view text);

/// As str.isspace and the \s of Python's expressions.
bool is_space(char32_t character);

enum class side { left, right, both };

/// str.strip, lstrip and rstrip: without white space, or without the characters of `which`.
std::string_view stripped(std::string_view text, side from = side::both);
std::string_view stripped(std::string_view text, side from, std::string_view which);

/// Where `part` begins in `text`, at byte `from` or later, first or last; npos: nowhere. The time
/// grows with the text alone, whatever both are: that of std::string_view::find with their product.
std::size_t first_of(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t last_of(std::string_view text, std::string_view part);

/// By Unicode's simple mappings, one character for one, and as Python for U+00DF and U+0130, of
/// which it makes two. Where it does so of others (ligatures for instance), the character stays.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);

/// The first letter after each character that is not one becomes upper case, others lower case.
/// str.title cuts at every character that has no case; the filter `title` at blanks and at -([{<.
std::string titled(std::string_view text);
std::string titled_words(std::string_view text);

/// str.isupper and islower.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

/// Whether there is a character and all are decimal digits, letters, or either.
bool is_digits(std::string_view text);
bool is_letters(std::string_view text);
bool is_letters_or_digits(std::string_view text);

/// Calls visit() for each line of str.splitlines: at every line end that Python knows. `keep`: with
/// their ends.
void for_each_line(std::string_view text,
                   bool keep,
                   const std::function<void(std::string_view)>& visit);

/// \r\n and \r become \n.
std::string with_plain_newlines(std::string_view text);

/// Takes the next bytes of a text that is written in pieces.
using text_sink = std::function<void(std::string_view)>;

/// repr() of a text: in quotes, what cannot be printed escaped.
void quote(std::string_view text, const text_sink& to);

/// repr() of a float: the shortest digits that read back as the same number.
std::string real_text(double value);

/// A text as JSON writes it, with quotes; `ascii`: characters beyond ASCII are escaped.
void json_quote(std::string_view text, bool ascii, const text_sink& to);

}  // namespace troupe::runtime::jinja
