#include "runtime/data/json_array_reader.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t bytes_per_read = std::size_t{1} << 20;
constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

bool json_array_reader::reads(const std::filesystem::path& path) {
  return json_array_reader(path).peek() == '[';
}

json_array_reader::json_array_reader(const std::filesystem::path& path) : path_(path), file_(path) {
  while (buffer_.size() < byte_order_mark.size() && fill())
    ;
  if (buffer_.starts_with(byte_order_mark))
    at_ = byte_order_mark.size();
}

/// Appends more text to the buffer, after removing the finished text.
bool json_array_reader::fill() {
  if (ended_)
    return false;
  buffer_.erase(0, std::exchange(at_, 0));
  const auto before = buffer_.size();
  const auto more = std::min(std::max(bytes_per_read, before), 64 * bytes_per_read);
  buffer_.resize(before + more);
  const auto n = file_.read(buffer_.data() + before, more);
  buffer_.resize(before + n);
  ended_ = n == 0;
  return !ended_;
}

/// The next character that is not blank; -1 at the end of the text.
int json_array_reader::peek() {
  for (;;) {
    for (; at_ < buffer_.size() && blanks.find(buffer_[at_]) != blanks.npos; ++at_)
      line_ += buffer_[at_] == '\n' ? 1 : 0;
    if (at_ < buffer_.size())
      return static_cast<unsigned char>(buffer_[at_]);
    if (!fill())
      return -1;
  }
}

void json_array_reader::fail(const char* what) const {
  throw input_error("cannot read '{}', line {}: {}", path_.string(), line_, what);
}

/// The end, in the buffer, of the element that begins at `at_`.
std::size_t json_array_reader::end_of_element(std::uint64_t largest) {
  int depth = 0;
  bool in_text = false, escaped = false;
  for (std::size_t length = 0;; ++length) {
    if (length > largest)
      throw input_error(
          "cannot read '{}', line {}: the element that begins there has more than {}; split it",
          path_.string(),
          line_,
          human_bytes(double(largest)));
    if (at_ + length == buffer_.size() && !fill())
      fail("the JSON array ends within the element that begins there; is the file truncated?");
    const char c = buffer_[at_ + length];
    if (in_text) {
      in_text = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ']')) {
      return at_ + length;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

bool json_array_reader::next(text_record& record, std::uint64_t largest) {
  auto c = peek();
  if (!std::exchange(begun_, true)) {
    if (c != '[')
      fail("a JSON array must begin with [");
    ++at_;
    c = peek();
  } else if (c == ',') {
    ++at_;
    c = peek();
    if (c == ']')
      fail("no element follows the last comma of the JSON array");
  }
  if (c == -1)
    fail("the JSON array has no end; is the file truncated?");
  if (c == ']') {
    ++at_;
    if (peek() != -1)
      fail("text follows the end of the JSON array; give one array, or one JSON object a line");
    return false;
  }
  const auto end = end_of_element(largest);
  const auto text = std::string_view(buffer_).substr(at_, end - at_);
  record = {.text = text.substr(0, text.find_last_not_of(blanks) + 1), .line = line_};
  line_ += std::uint64_t(std::count(text.begin(), text.end(), '\n'));
  at_ = end;
  return true;
}

}  // namespace troupe::runtime
