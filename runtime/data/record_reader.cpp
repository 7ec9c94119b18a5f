#include "runtime/data/record_reader.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t reading = std::size_t{1} << 20;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

}  // namespace

record_reader::record_reader(const std::filesystem::path& path,
                             text_format format,
                             record_position from,
                             cancel_token stop)
    : path_(path),
      file_(path),
      format_(format),
      stop_(std::move(stop)),
      base_(from.byte),
      line_(from.line) {
  for (auto left = from.byte; left > 0;) {
    stop_.throw_if_cancelled();
    // A plain file seeks at once.
    const auto step = file_.compressed() ? std::min<std::uint64_t>(left, reading) : left;
    file_.skip(step);
    left -= step;
  }
  if (from.byte > 0)
    return;
  while (buffer_.size() < 3 && fill())
    ;
  if (buffer_.starts_with("\xef\xbb\xbf"))
    begin_ = scan_ = searched_ = 3;
}

bool record_reader::next(text_record& record, std::uint64_t largest) {
  largest_ = largest;
  switch (format_) {
    case text_format::jsonl:
    case text_format::lines:
      return one_line(record);
    case text_format::paragraphs:
      return paragraph(record);
    case text_format::whole:
      return whole(record);
  }
  return false;
}

std::uint64_t record_reader::file_bytes() const {
  return file_.compressed() ? file_.taken() : std::min(base_ + begin_, file_.size());
}

void record_reader::require_room(std::uint64_t bytes) const {
  if (bytes > largest_)
    throw input_error(
        "cannot read '{}', line {}: the document that begins there has more than {}; split it",
        path_.string(),
        line_ + 1,
        human_bytes(double(largest_)));
}

/// Appends more text to the buffer, after removing the bytes of finished records.
bool record_reader::fill() {
  if (ended_)
    return false;
  stop_.throw_if_cancelled();
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    base_ += begin_;
    scan_ -= begin_;
    searched_ -= begin_;
    begin_ = 0;
    if (buffer_.capacity() > 16 * reading && buffer_.size() < reading)
      buffer_.shrink_to_fit();
  }
  const auto before = buffer_.size();
  const auto more = std::min(std::max(reading, before), 64 * reading);
  buffer_.resize(before + more);
  const auto n = file_.read(buffer_.data() + before, more);
  buffer_.resize(before + n);
  ended_ = n == 0;
  return !ended_;
}

/// Finds the next line in the buffer, including its line end.
bool record_reader::line(std::size_t& begin, std::size_t& end) {
  for (;;) {
    const auto found = buffer_.find('\n', searched_);
    if (found != std::string::npos) {
      end = found + 1;
      break;
    }
    searched_ = buffer_.size();
    require_room(buffer_.size() - begin_);
    if (fill())
      continue;
    if (scan_ == buffer_.size())
      return false;
    end = buffer_.size();
    break;
  }
  begin = scan_;
  scan_ = searched_ = end;
  return true;
}

bool record_reader::one_line(text_record& record) {
  for (std::size_t begin = 0, end = 0; line(begin, end);) {
    const auto text = std::string_view(buffer_).substr(begin, end - begin);
    require_room(text.size());
    begin_ = end;
    ++line_;
    if (is_blank(text))
      continue;
    record = {.text = without_line_end(text), .line = line_};
    return true;
  }
  return false;
}

bool record_reader::paragraph(text_record& record) {
  std::uint64_t lines = 0;
  for (std::size_t begin = 0, end = 0; line(begin, end);) {
    const auto blank = is_blank(std::string_view(buffer_).substr(begin, end - begin));
    if (blank && lines > 0) {
      record = {.text = without_line_end(std::string_view(buffer_).substr(begin_, begin - begin_)),
                .line = line_ + 1};
      require_room(record.text.size());
      line_ += lines + 1;
      begin_ = end;
      return true;
    }
    if (blank) {
      ++line_;
      begin_ = end;
    } else {
      ++lines;
    }
  }
  if (lines == 0)
    return false;
  record = {.text = without_line_end(std::string_view(buffer_).substr(begin_)), .line = line_ + 1};
  require_room(record.text.size());
  line_ += lines;
  begin_ = buffer_.size();
  return true;
}

bool record_reader::whole(text_record& record) {
  do
    require_room(buffer_.size() - begin_);
  while (fill());
  record = {.text = std::string_view(buffer_).substr(begin_), .line = line_ + 1};
  begin_ = scan_ = searched_ = buffer_.size();
  return !record.text.empty();
}

}  // namespace troupe::runtime
