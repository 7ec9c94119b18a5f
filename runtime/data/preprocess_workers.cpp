#include "runtime/data/preprocess_workers.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/sentence_splitter.hpp"

#include <limits>
#include <optional>

namespace troupe::runtime {

/// The state of one thread that tokenizes.
class preprocess_workers::worker {
 public:
  worker(const tokenizer& with, const preprocess_options& options)
      : with_(with),
        options_(options),
        type_(token_type_for(with.vocabulary_size())),
        frame_(options.framed && !options.split_sentences ? with.frame() : text_frame()) {
    if (options.split_sentences)
      sentences_.emplace(options.language);
  }

  void tokenize(preprocess_batch& batch) {
    batch.by_key.assign(options_.json_keys.size(), {});
    if (batch.path != path_ || !parser_) {
      parser_.emplace(*batch.path, batch.format, options_.json_keys);
      path_ = batch.path;
    }
    try {
      std::size_t begin = 0;
      for (const auto& one : batch.records) {
        options_.stop.throw_if_cancelled();
        record(
            {.text = std::string_view(batch.text).substr(begin, one.end - begin), .line = one.line},
            batch);
        begin = one.end;
      }
    } catch (...) {
      batch.failure = std::current_exception();
    }
    if (ids_.capacity() > largest_kept)
      ids_ = {};
  }

 private:
  static constexpr std::size_t largest_kept = std::size_t{1} << 20;  // ids

  void record(const text_record& from, preprocess_batch& batch) {
    const auto& documents = parser_->parse(from, true);
    for (std::size_t k = 0; k < documents.size(); ++k)
      try {
        document(documents[k], batch.by_key[k]);
      } catch (const input_error& e) {
        throw input_error(
            "cannot tokenize '{}', line {}: {}", batch.path->string(), from.line, e.what());
      }
  }

  void document(const std::vector<std::string_view>& texts, tokenized_key& out) {
    parts_.clear();
    for (const auto text : texts) {
      out.bytes += text.size();
      if (sentences_)
        sentences_->split(text, options_.keep_newlines, parts_);
      else
        parts_.push_back(text);
    }
    ids_.clear();
    const auto before = out.lengths.size();
    for (const auto part : parts_)
      sequence(part, out);
    if (out.lengths.size() > before && options_.append_eod) {
      ids_.push_back(with_.end_of_document());
      require_length(std::size_t(out.lengths.back()) + 1);
      ++out.lengths.back();
    }
    store(out);
    out.sequences.push_back(std::int64_t(out.lengths.size() - before));
    out.empty_documents += out.lengths.size() == before ? 1 : 0;
  }

  void sequence(std::string_view text, tokenized_key& out) {
    const auto before = ids_.size();
    ids_.insert(ids_.end(), frame_.before.begin(), frame_.before.end());
    with_.append(text, ids_);
    ids_.insert(ids_.end(), frame_.after.begin(), frame_.after.end());
    if (ids_.size() == before)
      return;
    require_length(ids_.size() - before);
    out.lengths.push_back(std::int32_t(ids_.size() - before));
  }

  static void require_length(std::size_t tokens) {
    if (tokens > std::size_t(std::numeric_limits<std::int32_t>::max()))
      throw input_error(
          "it has {} tokens, the maximum is 2147483647; split the text into smaller documents",
          tokens);
  }

  void store(tokenized_key& out) {
    const auto vocabulary = with_.vocabulary_size();
    for (const auto id : ids_)
      if (id < 0 || id >= vocabulary)
        throw input_error(
            "the tokenizer gave id {}, but its vocabulary has {} ids; give the vocabulary that "
            "belongs to the tokenizer",
            id,
            vocabulary);
    if (type_ == token_type::u16) {
      narrow_.assign(ids_.begin(), ids_.end());
      out.tokens.append(reinterpret_cast<const char*>(narrow_.data()), narrow_.size() * 2);
      if (narrow_.capacity() > largest_kept)
        narrow_ = {};
    } else {
      out.tokens.append(reinterpret_cast<const char*>(ids_.data()), ids_.size() * 4);
    }
  }

  const tokenizer& with_;
  const preprocess_options& options_;
  token_type type_;
  text_frame frame_;
  std::optional<sentence_splitter> sentences_;
  std::optional<record_parser> parser_;
  const std::filesystem::path* path_ = nullptr;
  std::vector<std::string_view> parts_;
  std::vector<std::int32_t> ids_;
  std::vector<std::uint16_t> narrow_;
};

preprocess_workers::preprocess_workers(const tokenizer& with, const preprocess_options& options)
    : with_(with), options_(options), own_(std::make_unique<worker>(with, options)) {
  try {
    for (unsigned w = 1; w < options.workers; ++w)
      others_.push_back(start_thread("preprocess", [this] { help(); }));
  } catch (const io_error&) {
    // Works with fewer threads.
  }
}

preprocess_workers::~preprocess_workers() {
  {
    const std::lock_guard lock(guard_);
    quit_ = true;
  }
  waiting_.notify_all();
  others_.clear();
}

preprocess_batch* preprocess_workers::next_waiting() {
  return started_ < queue_.size() ? queue_[started_++].get() : nullptr;
}

void preprocess_workers::help() {
  std::optional<worker> mine;
  std::unique_lock lock(guard_);
  for (;;) {
    waiting_.wait(lock, [this] { return quit_ || started_ < queue_.size(); });
    if (quit_)
      return;
    auto* const batch = next_waiting();
    lock.unlock();
    try {
      if (!mine)
        mine.emplace(with_, options_);
      mine->tokenize(*batch);
    } catch (...) {
      batch->failure = std::current_exception();
    }
    lock.lock();
    batch->done = true;
    finished_.notify_one();
  }
}

void preprocess_workers::put(std::unique_ptr<preprocess_batch> batch) {
  {
    const std::lock_guard lock(guard_);
    queue_.push_back(std::move(batch));
  }
  waiting_.notify_one();
}

std::unique_ptr<preprocess_batch> preprocess_workers::take() {
  std::unique_lock lock(guard_);
  while (!queue_.front()->done) {
    if (auto* const batch = next_waiting()) {
      lock.unlock();
      own_->tokenize(*batch);
      lock.lock();
      batch->done = true;
    } else {
      finished_.wait(lock, [this] { return queue_.front()->done; });
    }
  }
  auto out = std::move(queue_.front());
  queue_.pop_front();
  --started_;
  return out;
}

std::unique_ptr<preprocess_batch> preprocess_workers::take_if_done() {
  {
    const std::lock_guard lock(guard_);
    if (queue_.empty() || !queue_.front()->done)
      return nullptr;
  }
  return take();
}

}  // namespace troupe::runtime
