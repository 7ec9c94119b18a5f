#include "runtime/data/preprocess.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/file_lock.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <set>
#include <thread>

namespace troupe::runtime {
namespace {

constexpr std::size_t bytes_per_worker = std::size_t{4} << 20;
constexpr std::size_t documents_per_batch = 1 << 16;

struct document {
  std::string text;
  std::uint64_t number = 0;  ///< in its file, from 1
  std::vector<std::int32_t> ids = {};
  std::exception_ptr failure = {};
};

/// Gathers documents, tokenises them on all workers, writes them in the order in which they came.
class pipeline {
 public:
  pipeline(const tokenizer& with, const preprocess_options& options, indexed_dataset_builder& out)
      : with_(with), options_(options), out_(out) {}

  void begin(const std::filesystem::path& file) {
    flush();
    file_ = file;
    number_ = 0;
  }

  void add(std::string_view text) {
    options_.stop.throw_if_cancelled();
    waiting_.push_back({.text = std::string(text), .number = ++number_});
    waiting_bytes_ += text.size();
    bytes_ += text.size();
    if (waiting_bytes_ >= bytes_per_worker * options_.workers
        || waiting_.size() >= documents_per_batch)
      flush();
  }

  void flush() {
    tokenise();
    options_.stop.throw_if_cancelled();
    for (auto& d : waiting_) {
      if (d.failure)
        fail(d);
      if (!d.ids.empty() && options_.append_eod)
        d.ids.push_back(with_.end_of_document());
      if (!d.ids.empty())
        out_.add_sequence(d.ids);
      out_.end_document();
    }
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail(const document& d) const {
    try {
      std::rethrow_exception(d.failure);
    } catch (const input_error& e) {
      throw input_error(
          "cannot tokenise document {} of '{}': {}", d.number, file_.string(), e.what());
    }
  }

  void tokenise() {
    std::atomic<std::size_t> next = 0;
    const auto work = [this, &next] {
      for (auto i = next++; i < waiting_.size(); i = next++) {
        auto& d = waiting_[i];
        if (options_.stop.is_cancelled())
          return;
        try {
          d.ids = frame_.before;
          with_.append(d.text, d.ids);
          d.ids.insert(d.ids.end(), frame_.after.begin(), frame_.after.end());
        } catch (...) {
          d.failure = std::current_exception();
        }
      }
    };
    std::vector<std::jthread> others;
    try {
      for (unsigned w = 1; w < options_.workers && w < waiting_.size(); ++w)
        others.push_back(start_thread("preprocess", work));
    } catch (const io_error&) {
      // The fewer there are, the longer it takes.
    }
    work();
  }

  const tokenizer& with_;
  const preprocess_options& options_;
  text_frame frame_ = options_.framed ? with_.frame() : text_frame();
  indexed_dataset_builder& out_;
  std::filesystem::path file_;
  std::uint64_t number_ = 0;
  std::vector<document> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

std::uint64_t total_bytes(const std::vector<std::filesystem::path>& inputs) {
  std::uint64_t total = 0;
  for (const auto& path : inputs)
    total += mapped_file(path).bytes().size();  // and a missing file is known before any work
  return total;
}

void check(const preprocess_options& options) {
  if (options.inputs.empty())
    throw input_error(
        "cannot preprocess: there is no input; give `preprocess.input` with text files");
  if (options.output_prefix.filename().empty())
    throw input_error("cannot preprocess into '{}': it must end in a name, not in a folder",
                      options.output_prefix.string());
  if (options.workers < 1 || options.workers > 1024)
    throw input_error("cannot preprocess with {} workers: between 1 and 1024 are possible",
                      options.workers);
  if (options.json_keys.empty())
    throw input_error("cannot preprocess: no JSON key is named; give `preprocess.json_keys` text");
  for (const auto& key : options.json_keys)
    if (key.empty() || key.find('/') != std::string::npos)
      throw input_error(
          "cannot preprocess the JSON key '{}': it names the output, so it must not be empty or "
          "contain '/'",
          key);
  const std::set<std::string> unique(options.json_keys.begin(), options.json_keys.end());
  if (unique.size() != options.json_keys.size())
    throw input_error("cannot preprocess: a JSON key is named twice in `preprocess.json_keys`");
}

}  // namespace

std::vector<preprocess_result> preprocess(const tokenizer& with,
                                          const preprocess_options& options) {
  check(options);
  const auto total = total_bytes(options.inputs);
  if (options.output_prefix.has_parent_path())
    make_folder(options.output_prefix.parent_path());

  std::vector<file_lock> locks;
  std::vector<std::unique_ptr<indexed_dataset_builder>> builders;
  std::vector<preprocess_result> results;
  for (const auto& key : options.json_keys) {
    const auto started = std::chrono::steady_clock::now();
    auto& result = results.emplace_back();
    result.prefix = options.output_prefix.string() + "_" + key + "_document";
    locks.emplace_back(result.prefix, "write the data set");
    auto& out = *builders.emplace_back(
        std::make_unique<indexed_dataset_builder>(result.prefix, with.vocabulary_size()));

    progress_bar bar("tokenising", total, "B");
    pipeline through(with, options, out);
    std::uint64_t before = 0;
    for (const auto& path : options.inputs) {
      const text_options reading{.format = options.format.value_or(text_format_of(path)),
                                 .json_key = key};
      through.begin(path);
      for_each_document(path, reading, [&](std::string_view text, std::uint64_t bytes_done) {
        through.add(text);
        bar.advance_to(before + bytes_done);
      });
      before += std::filesystem::file_size(path);
    }
    through.flush();
    if (out.tokens() == 0)
      throw input_error("cannot preprocess '{}': it gave {} and no tokens",
                        options.inputs.front().string(),
                        counted(out.documents(), "document"));
    result.documents = out.documents();
    result.tokens = out.tokens();
    result.bytes = through.bytes();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    result.seconds = passed.count();
  }
  // Only now, so that a bad line under the last key leaves nothing of the first.
  for (auto& out : builders)
    out->finish();
  return results;
}

}  // namespace troupe::runtime
