#include "runtime/data/preprocess.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/preprocess_journal.hpp"
#include "runtime/data/preprocess_workers.hpp"
#include "runtime/data/sentence_splitter.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/file/same_file.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>
#include <sys/stat.h>

namespace troupe::runtime {
namespace {

constexpr std::uint64_t bytes_per_batch = std::uint64_t{1} << 18;
constexpr std::uint64_t bytes_per_worker = std::uint64_t{1} << 21;
constexpr std::size_t records_per_batch = 1 << 14;

void check(const preprocess_options& options) {
  if (options.inputs.empty())
    throw input_error(
        "cannot preprocess: there is no input; give text files as `preprocess.input`");
  if (options.output_prefix.filename().empty())
    throw input_error("cannot preprocess into '{}': it must end in a name, not in a folder",
                      options.output_prefix.string());
  for (const auto& path : options.inputs)
    if (is_object_url(path.string()))
      throw input_error("cannot preprocess '{}': only local files can be read; copy it to a file",
                        path.string());
  if (is_object_url(options.output_prefix.string()))
    throw input_error(
        "cannot preprocess into '{}': objects are only read; write files, and copy them",
        options.output_prefix.string());
  if (options.workers < 1 || options.workers > most_preprocess_workers)
    throw input_error("cannot preprocess with {} workers: the range is 1 to {}",
                      options.workers,
                      most_preprocess_workers);
  if (options.json_keys.empty())
    throw input_error("cannot preprocess: no JSON key is named; give `preprocess.json_keys` text");
  for (const auto& key : options.json_keys)
    if (key.empty() || key.find('/') != std::string::npos)
      throw input_error(
          "cannot preprocess the JSON key '{}': it names the output, so it must not be empty or "
          "contain '/'",
          key);
    else if (first_invalid_utf8(key) != std::string::npos)
      throw input_error("cannot preprocess the JSON key '{}': it is not UTF-8, but JSON is", key);
  if (options.keep_newlines && !options.split_sentences)
    throw input_error(
        "cannot keep newlines after sentences: documents are not split into sentences");
  const std::set<std::string> unique(options.json_keys.begin(), options.json_keys.end());
  if (unique.size() != options.json_keys.size())
    throw input_error("cannot preprocess: a JSON key is named twice in `preprocess.json_keys`");
}

text_format format_of(const std::filesystem::path& path, const preprocess_options& options) {
  return options.format.value_or(text_format_of(path));
}

std::vector<std::uint64_t> sizes_of(const std::vector<std::filesystem::path>& inputs) {
  std::vector<std::uint64_t> out;
  for (const auto& path : inputs)
    out.push_back(inflating_file(path).size());  // also reports a missing file before any work
  return out;
}

nlohmann::json state_of(const std::filesystem::path& path, const preprocess_options& options) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0)
    throw input_error("cannot open '{}': {}", path.string(), system_message(errno));
  return {text_or_bytes(std::filesystem::absolute(path).lexically_normal().string()),
          std::uint64_t(about.st_size),
          std::int64_t(about.st_mtim.tv_sec),
          std::int64_t(about.st_mtim.tv_nsec),
          int(format_of(path, options))};
}

/// Everything that determines the output.
nlohmann::json identity_of(const tokenizer& with, const preprocess_options& options) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const auto& path : options.inputs)
    inputs.push_back(state_of(path, options));
  nlohmann::json out = {{"inputs", std::move(inputs)},
                        {"json_keys", options.json_keys},
                        {"tokenizer", with.kind() + " " + to_string(with.fingerprint())},
                        {"vocabulary", with.vocabulary_size()},
                        {"append_eod", options.append_eod},
                        {"special_tokens_around", options.framed && !options.split_sentences},
                        {"split_sentences", options.split_sentences}};
  if (options.split_sentences) {
    out["keep_newlines"] = options.keep_newlines;
    out["language"] = options.language;
    out["sentences_by"] = sentence_splitter::version();
  }
  return out;
}

std::filesystem::path dataset_prefix(const std::filesystem::path& output,
                                     const std::string& key,
                                     bool sentences) {
  return output.string() + "_" + key + (sentences ? "_sentence" : "_document");
}

/// One run: reads, tokenizes on workers, writes, and journals its progress.
class run {
 public:
  run(const tokenizer& with, const preprocess_options& options)
      : with_(with),
        options_(options),
        type_(token_type_for(with.vocabulary_size())),
        sizes_(sizes_of(options.inputs)),
        identity_(identity_of(with, options)),
        journal_(options.output_prefix, identity_) {
    for (const auto& key : options.json_keys)
      prefixes_.push_back(dataset_prefix(options.output_prefix, key, options.split_sentences));
    refuse_output_as_input();
    locks_.emplace_back(journal_.path(), "write");  // shared with runs of other keys
    for (const auto& prefix : prefixes_)
      locks_.emplace_back(prefix, "write the data set");
    at_.by_key.resize(prefixes_.size());
  }

  std::vector<preprocess_result> all() {
    const auto started = std::chrono::steady_clock::now();
    begin();
    std::uint64_t before = 0;
    for (const auto& one : at_.by_key)
      before = std::max(before, one.bytes);
    try {
      if (!at_.read)
        read_and_write();
      for (std::size_t k = 0; k < prefixes_.size(); ++k)
        publish_dataset(prefixes_[k], type_, at_.by_key[k].dataset, manifest_of(with_));
    } catch (const input_error&) {
      remove();
      throw;
    } catch (...) {  // the disk, a signal, no memory: another run may resume
      if (!noted_)
        remove();
      throw;
    }
    journal_.remove();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    return results(before, passed.count());
  }

 private:
  void begin() {
    if (!options_.resume)
      return remove();
    if (auto found = journal_.read()) {
      at_ = std::move(*found);
      noted_ = true;
    } else {
      remove();  // parts without a journal are useless
    }
  }

  void refuse_output_as_input() const {
    for (const auto& prefix : prefixes_)
      for (const auto& output : {bin_path(prefix), idx_path(prefix), manifest_path(prefix)})
        require_no_input("the output", output, options_.inputs);
  }

  /// Removes the parts of a killed run with other keys.
  void remove_parts_left() const {
    const auto left = journal_.identity_left();
    if (!left.is_object() || !left.contains("json_keys") || !left["json_keys"].is_array())
      return;
    for (const auto& key : left["json_keys"]) {
      if (!key.is_string() || key.get_ref<const std::string&>().find('/') != std::string::npos)
        continue;
      const auto prefix = dataset_prefix(
          options_.output_prefix, key, left.value("split_sentences", nlohmann::json()) == true);
      if (std::find(prefixes_.begin(), prefixes_.end(), prefix) != prefixes_.end())
        continue;
      const file_lock lock(prefix, "remove the parts of the data set");
      remove_parts(prefix);
    }
  }

  void remove() {
    parts_.clear();
    for (const auto& prefix : prefixes_)
      remove_parts(prefix);
    remove_parts_left();
    journal_.remove();
  }

  void read_and_write() {
    for (std::size_t k = 0; k < prefixes_.size(); ++k)
      parts_.push_back(std::make_unique<dataset_parts>(prefixes_[k], type_, at_.by_key[k].dataset));
    if (!noted_)
      journal_.write(at_);  // marks the parts as files of this run
    {
      std::uint64_t done = 0;
      for (std::uint64_t i = 0; i < at_.input; ++i)
        done += sizes_[i];
      preprocess_workers workers(with_, options_);
      progress_bar bar(
          "tokenizing", std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0}), "B", done);
      for (auto i = at_.input; i < options_.inputs.size(); ++i) {
        read_file(i, workers, [&](std::uint64_t bytes) { bar.advance_to(done + bytes); });
        done += sizes_[i];
      }
      while (!workers.empty())
        write(workers.take());
    }
    require_tokens();
    at_.read = true;
    note();
    parts_.clear();
  }

  void require_tokens() const {
    for (std::size_t k = 0; k < prefixes_.size(); ++k)
      if (at_.by_key[k].dataset.tokens == 0)
        throw input_error("cannot preprocess '{}'{}: it gave {} and no tokens",
                          options_.inputs.front().string(),
                          prefixes_.size() > 1 ? " for '" + options_.json_keys[k] + "'" : "",
                          counted(at_.by_key[k].dataset.documents, "document"));
  }

  template <class Advance>
  void read_file(std::uint64_t input, preprocess_workers& workers, const Advance& advance) {
    const auto& path = options_.inputs[input];
    const auto format = format_of(path, options_);
    record_reader from(
        path, format, input == at_.input ? at_.at : record_position(), options_.stop);
    const auto budget = bytes_per_worker * options_.workers;
    for (bool more = true; more;) {
      while (auto done = workers.take_if_done())
        write(std::move(done));
      while (!workers.empty() && in_flight_ + bytes_per_batch > budget)
        write(workers.take());
      options_.stop.throw_if_cancelled();
      auto batch = std::make_unique<preprocess_batch>();
      batch->path = &path;
      batch->format = format;
      batch->input = input;
      more = fill(*batch, from);
      advance(from.file_bytes());
      in_flight_ += batch->text.size();
      most_ = std::max(most_, in_flight_ + from.buffered());
      if (!batch->records.empty())
        workers.put(std::move(batch));
    }
    if (state_of(path, options_) != identity_["inputs"][input])
      throw input_error(
          "cannot preprocess '{}': it changed while it was read; wait until it is complete, and "
          "run "
          "it again",
          path.string());
  }

  bool fill(preprocess_batch& batch, record_reader& from) const {
    bool more = true;
    text_record one;
    while (batch.text.size() < bytes_per_batch && batch.records.size() < records_per_batch
           && (more = from.next(one, options_.largest_document))) {
      batch.text += one.text;
      batch.records.push_back({batch.text.size(), one.line});
    }
    batch.after = from.position();
    return more;
  }

  void write(std::unique_ptr<preprocess_batch> batch) {
    if (batch->failure)
      std::rethrow_exception(batch->failure);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const auto& one = batch->by_key[k];
      parts_[k]->add(one.tokens, one.lengths, one.sequences);
      auto& to = at_.by_key[k];
      to.dataset = parts_[k]->progress();
      to.bytes += one.bytes;
      to.empty_documents += one.empty_documents;
    }
    in_flight_ -= batch->text.size();
    written_since_ += batch->text.size();
    at_.input = batch->input;
    at_.at = batch->after;
    if (written_since_ >= options_.journal_interval)
      note();
  }

  void note() {
    for (const auto& one : parts_)
      one->sync();
    journal_.write(at_);
    noted_ = true;
    written_since_ = 0;
  }

  std::vector<preprocess_result> results(std::uint64_t before, double seconds) const {
    std::vector<preprocess_result> out;
    for (std::size_t k = 0; k < prefixes_.size(); ++k) {
      const auto& one = at_.by_key[k];
      out.push_back({.prefix = prefixes_[k],
                     .documents = one.dataset.documents,
                     .empty_documents = one.empty_documents,
                     .sequences = one.dataset.sequences,
                     .tokens = one.dataset.tokens,
                     .bytes = one.bytes,
                     .resumed_bytes = std::min(before, one.bytes),
                     .most_text_in_memory = most_,
                     .seconds = seconds});
    }
    return out;
  }

  const tokenizer& with_;
  const preprocess_options& options_;
  token_type type_;
  std::vector<std::uint64_t> sizes_;
  nlohmann::json identity_;
  preprocess_journal journal_;
  std::vector<std::filesystem::path> prefixes_;
  std::vector<file_lock> locks_;
  std::vector<std::unique_ptr<dataset_parts>> parts_;
  preprocess_progress at_;
  std::uint64_t in_flight_ = 0, most_ = 0, written_since_ = 0;
  bool noted_ = false;  ///< the journal on disk makes a resume possible
};

}  // namespace

/// PREPROCESS-A: `read_file` reads batches within the budget; the reader keeps its last record.
std::uint64_t preprocess_memory(unsigned workers, std::uint64_t largest) {
  return bytes_per_worker * (workers + 1) + 4 * largest;
}

std::vector<preprocess_result> preprocess(const tokenizer& with,
                                          const preprocess_options& options) {
  check(options);
  if (options.output_prefix.has_parent_path())
    make_folder(options.output_prefix.parent_path());
  return run(with, options).all();
}

}  // namespace troupe::runtime
