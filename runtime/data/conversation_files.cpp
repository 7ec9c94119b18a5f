#include "runtime/data/conversation_files.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/data/conversation_fields.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/data/json_array_reader.hpp"
#include "runtime/data/record_reader.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/file/part_file.hpp"
#include "runtime/file/same_file.hpp"

#include <array>
#include <atomic>
#include <exception>
#include <limits>

namespace troupe::runtime {
namespace {

constexpr std::size_t line_bytes_per_worker = std::size_t{1} << 20;
constexpr std::uint64_t longest_line = std::uint64_t{256} << 20;
constexpr std::size_t most_unread = 20;  // field names, approximately
constexpr std::size_t most_skipped_at = 5;
constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();

struct conversation_line {
  std::string text;
  std::string place;  ///< in its file
  std::vector<tokenized_conversation> found = {};
  std::vector<std::string> skipped = {};  ///< reasons
  std::set<std::string> unread = {}, unread_of_messages = {};
  std::exception_ptr failure = {};
};

/// Collects lines, tokenizes them on all workers, and writes them in input order.
class conversation_writer {
 public:
  conversation_writer(const conversation_rules& by,
                      const conversation_files_options& options,
                      const std::filesystem::path& prefix)
      : by_(by),
        options_(options),
        tokens_prefix_(prefix),
        tokens_(prefix, by.text.vocabulary_size()),
        answers_(answers_prefix(prefix), most_tokens) {}

  void read(const std::filesystem::path& path, progress_bar& bar, std::uint64_t before) {
    if (json_array_reader::reads(path)) {
      json_array_reader from(path);
      read(from, path, bar, before, [n = 0](const text_record& record) mutable {
        return fmt::format("record {} (line {})", ++n, record.line);
      });
    } else {
      record_reader from(path, text_format::jsonl);
      read(from, path, bar, before, [](const text_record& record) {
        return fmt::format("line {}", record.line);
      });
    }
  }

  conversation_files_result finish() {
    if (out_.conversations == 0 && out_.skipped > 0)
      throw input_error("there is nothing to learn in '{}': {} skipped; the first is {}: {}",
                        options_.inputs.front().string(),
                        counted(out_.skipped, "conversation was", "conversations were"),
                        out_.skipped_at.front(),
                        first_reason_);
    if (out_.conversations == 0)
      throw input_error("there is no conversation in '{}'", options_.inputs.front().string());
    // Removes the old index first and writes the new one last, so that conversations are never
    // visible with the answers of another run.
    remove_file(idx_path(tokens_prefix_));
    answers_.finish();
    tokens_.finish(manifest_of(by_.text));
    return out_;
  }

 private:
  template <class Reader, class Place>
  void read(Reader& from,
            const std::filesystem::path& path,
            progress_bar& bar,
            std::uint64_t before,
            Place place_of) {
    std::size_t waiting = 0;
    for (text_record record; from.next(record, longest_line);) {
      lines_.push_back({.text = std::string(record.text), .place = place_of(record)});
      waiting += record.text.size();
      if (waiting >= line_bytes_per_worker * options_.workers) {
        flush(path);
        waiting = 0;
        bar.advance_to(before + from.file_bytes());
      }
    }
    flush(path);
  }

  void flush(const std::filesystem::path& path) {
    tokenize_all();
    options_.stop.throw_if_cancelled();
    for (auto& line : lines_) {
      if (line.failure)
        fail(path, line);
      for (const auto& x : line.found)
        add(x);
      for (const auto& reason : line.skipped)
        skip(path, line, reason);
      note(line.unread, out_.unread_of_lines);
      note(line.unread_of_messages, out_.unread_of_messages);
    }
    lines_.clear();
  }

  void add(const tokenized_conversation& x) {
    tokens_.add_sequence(x.ids);
    tokens_.end_document();
    std::vector<std::int32_t> ends;
    for (const auto& [begin, end] : x.answers) {
      ends.insert(ends.end(), {begin, end});
      out_.answer_tokens += end - begin;
    }
    answers_.add_sequence(ends);
    answers_.end_document();
    ++out_.conversations;
    out_.tokens += std::int64_t(x.ids.size());
    out_.longest = std::max(out_.longest, std::int64_t(x.ids.size()));
  }

  void skip(const std::filesystem::path& path,
            const conversation_line& line,
            const std::string& reason) {
    if (out_.skipped++ == 0)
      first_reason_ = reason;
    if (out_.skipped_at.size() < most_skipped_at)
      out_.skipped_at.push_back(fmt::format("{} of '{}'", line.place, path.string()));
  }

  static void note(std::set<std::string>& names, std::set<std::string>& to) {
    if (to.size() < most_unread)
      to.merge(names);
  }

  [[noreturn]] static void fail(const std::filesystem::path& path, const conversation_line& line) {
    try {
      std::rethrow_exception(line.failure);
    } catch (const input_error& e) {
      throw input_error("cannot use '{}', {}: {}", path.string(), line.place, e.what());
    }
  }

  void add_tokenized(const conversation& x, conversation_line& to) const {
    try {
      to.found.push_back(tokenize(by_, x));
    } catch (const nothing_to_learn& e) {
      if (options_.strict)
        throw;
      to.skipped.emplace_back(e.what());
    }
  }

  void tokenize_line(conversation_line& line) const {
    try {
      if (first_invalid_utf8(line.text) != std::string_view::npos)
        throw input_error(
            "it is not UTF-8; convert the file, for example with iconv -f LATIN1 -t UTF-8");
      for (auto& x : conversations_of(line.text)) {
        add_tokenized(x, line);
        line.unread.merge(x.unread);
        line.unread_of_messages.merge(unread_fields_of_messages(x.messages, by_.prompt.source()));
      }
    } catch (...) {
      line.failure = std::current_exception();
    }
  }

  void tokenize_all() {
    std::atomic<std::size_t> next = 0;
    const auto work = [this, &next] {
      for (auto i = next++; i < lines_.size() && !options_.stop.is_cancelled(); i = next++)
        tokenize_line(lines_[i]);
    };
    std::vector<std::jthread> others;
    try {
      for (unsigned w = 1; w < options_.workers && w < lines_.size(); ++w)
        others.push_back(start_thread("conversations", work));
    } catch (const io_error&) {
      // Works with fewer threads.
    }
    work();
  }

  const conversation_rules& by_;
  const conversation_files_options& options_;
  std::filesystem::path tokens_prefix_;
  indexed_dataset_builder tokens_, answers_;
  std::vector<conversation_line> lines_;
  conversation_files_result out_;
  std::string first_reason_;  ///< of the first skipped conversation
};

}  // namespace

std::filesystem::path answers_prefix(const std::filesystem::path& prefix) {
  return prefix.string() + "_answers";
}

conversation_files_result write_conversations(const conversation_rules& by,
                                              const conversation_files_options& options) {
  if (options.inputs.empty())
    throw input_error("cannot read conversations: there is no input");
  if (options.output_prefix.filename().empty())
    throw input_error(
        "cannot write conversations into '{}': it must end in a name, not in a folder",
        options.output_prefix.string());
  if (options.workers < 1 || options.workers > 1024)
    throw input_error("cannot read conversations with {} workers: the range is 1 to 1024",
                      options.workers);
  std::uint64_t total = 0, before = 0;
  for (const auto& path : options.inputs)
    total += inflating_file(path).size();  // also reports a missing file before any work
  if (options.output_prefix.has_parent_path())
    make_folder(options.output_prefix.parent_path());
  const std::filesystem::path prefix = options.output_prefix.string() + "_conversations";
  const auto answers = answers_prefix(prefix);
  const std::array outputs{
      bin_path(prefix), idx_path(prefix), bin_path(answers), idx_path(answers)};
  for (const auto& output : outputs)
    require_no_input("the output", output, options.inputs);
  const file_lock lock(prefix, "write the data set");
  for (const auto& output : outputs)
    lock.remove_parts(output);
  conversation_writer writer(by, options, prefix);
  {
    progress_bar bar("tokenizing", total, "B");
    for (const auto& path : options.inputs) {
      writer.read(path, bar, before);
      before += inflating_file(path).size();
      bar.advance_to(before);
    }
  }
  auto out = writer.finish();
  out.prefix = prefix;
  return out;
}

namespace {

indexed_dataset open_answers(const std::filesystem::path& prefix, const object_access& objects) {
  try {
    return indexed_dataset(answers_prefix(prefix), objects);
  } catch (const input_error& e) {
    throw input_error(
        "'{}' is not a data set of conversations, which `data.sft` needs; write one with `troupe "
        "conversations`: {}",
        prefix.string(),
        e.what());
  }
}

}  // namespace

conversation_source::conversation_source(const std::filesystem::path& prefix,
                                         const object_access& objects)
    : tokens_(prefix, objects), answers_(open_answers(prefix, objects)) {
  if (answers_.sequences() != tokens_.sequences())
    throw input_error(
        "'{}' has {} conversations, but '{}' has the answers of {}; write both again with `troupe "
        "conversations`",
        prefix.string(),
        tokens_.sequences(),
        answers_prefix(prefix).string(),
        answers_.sequences());
}

std::vector<token_range> conversation_source::answers(std::int64_t conversation) const {
  std::vector<std::int32_t> ends(std::size_t(answers_.length(conversation)));
  answers_.get(conversation, 0, ends);
  std::vector<token_range> out;
  std::int32_t at = 0;
  bool good = ends.size() % 2 == 0;
  for (std::size_t k = 0; good && k < ends.size(); k += 2) {
    good = ends[k] >= at && ends[k + 1] > ends[k];
    out.emplace_back(ends[k], ends[k + 1]);
    at = ends[k + 1];
  }
  if (!good || at > tokens_.length(conversation))
    throw input_error(
        "the answers in {} are not ascending ranges of {}: write both again with `troupe "
        "conversations`",
        answers_.place(conversation),
        tokens_.place(conversation));
  return out;
}

void conversation_source::expect(std::int64_t conversation, std::size_t tokens) const {
  tokens_.expect(conversation, 0, tokens);
  answers_.expect(conversation, 0, std::size_t(answers_.length(conversation)));
}

}  // namespace troupe::runtime
