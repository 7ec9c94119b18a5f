// Functions of Python's str for UTF-8 texts; a character is a code point.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime::jinja {

/// Number of characters: counts the bytes that are not continuation bytes.
std::size_t length(std::string_view text);

/// The offset of character number `index`; the size of the text if it has fewer characters.
std::size_t byte_of(std::string_view text, std::size_t index);

/// Reads the character at byte `at` and advances `at`. An invalid byte is returned as its value.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& to, char32_t character);

/// True for valid UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

/// Like str.isspace and \s in Python's regular expressions.
bool is_space(char32_t character);

enum class side { left, right, both };

/// str.strip, lstrip and rstrip: removes white space, or the characters of `which`.
std::string_view stripped(std::string_view text, side from = side::both);
std::string_view stripped(std::string_view text, side from, std::string_view which);

/// The offset of the first (at or after `from`) or last occurrence of `part` in `text`, or npos.
/// Takes linear time for all inputs, unlike std::string_view::find.
std::size_t first_of(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t last_of(std::string_view text, std::string_view part);

/// Case mappings. Uses Unicode's simple mappings, and Python's two-character mappings of U+00DF and
/// U+0130. Other characters that Python maps to several (such as ligatures) are unchanged.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);

/// The first letter of each word becomes upper case, others lower case. For str.title, characters
/// without case separate words; for the filter `title`, white space and -([{< do.
std::string titled(std::string_view text);
std::string titled_words(std::string_view text);

/// str.isupper and islower.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

/// True if the text is not empty and all characters are decimal digits, letters, or either.
bool is_digits(std::string_view text);
bool is_letters(std::string_view text);
bool is_letters_or_digits(std::string_view text);

/// Calls visit() for each line of str.splitlines, which knows more line ends than \n. `keep`:
/// includes the line ends.
void for_each_line(std::string_view text,
                   bool keep,
                   const std::function<void(std::string_view)>& visit);

/// Replaces \r\n and \r by \n.
std::string with_plain_newlines(std::string_view text);

/// Receives the next piece of a text.
using text_sink = std::function<void(std::string_view)>;

/// repr() of a text: in quotes, with escapes for unprintable characters.
void quote(std::string_view text, const text_sink& to);

/// repr() of a float: the shortest digits that read back as the same number.
std::string real_text(double value);

/// A JSON string with quotes; `ascii`: escapes non-ASCII characters.
void json_quote(std::string_view text, bool ascii, const text_sink& to);

}  // namespace troupe::runtime::jinja
