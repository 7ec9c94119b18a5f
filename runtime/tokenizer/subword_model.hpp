// What makes the ids of one word: what a tokenizer.json calls its model.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The ids of words met lately. Direct-mapped: it never grows, and a word only ever displaces the
/// one in its own slot. One thread at a time.
class word_cache {
 public:
  static constexpr std::size_t words = 1 << 14;
  static constexpr std::size_t longest = 48;  ///< bytes; longer words are made anew each time

  /// Appends the ids of `word`, which `make` appends to a vector where it is not known.
  template <class F>
  void append(std::string_view word, std::vector<std::int32_t>& ids, F&& make) {
    if (word.size() > longest)
      return make(ids);
    auto& known = known_[hash64(word) % words];
    if (known.word != word) {
      known.word.clear();  // should the next line throw, an empty slot equals no word
      known.ids.clear();
      make(known.ids);
      known.word = word;
    }
    ids.insert(ids.end(), known.ids.begin(), known.ids.end());
  }

 private:
  struct known_word {
    std::string word;
    std::vector<std::int32_t> ids;
  };
  std::vector<known_word> known_ = std::vector<known_word>(words);
};

/// Room to work in for one thread at a time. Models add their own.
struct subword_worker {
  static constexpr std::size_t kept = 1 << 16;  ///< elements of a buffer between two calls

  virtual ~subword_worker() = default;

  /// Frees what only a long word needed.
  virtual void shed() {}

  /// Frees the buffer where it has room for more than `kept`.
  template <class T>
  static void free_if_large(std::vector<T>& buffer) {
    if (buffer.capacity() > kept)
      std::vector<T>().swap(buffer);
  }

  word_cache known;
};

/// Workers that wait for a caller. Any thread.
class worker_pool {
 public:
  /// A worker while somebody has it; goes back by itself, after an exception, too.
  class lease {
   public:
    lease(worker_pool& from, std::unique_ptr<subword_worker> x)
        : from_(from), held_(std::move(x)) {}
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease() { from_.give_back(std::move(held_)); }

    subword_worker& operator*() const { return *held_; }

   private:
    worker_pool& from_;
    std::unique_ptr<subword_worker> held_;
  };

  template <class F>
  lease take(F&& make) {
    return {*this, idle_worker_or(std::forward<F>(make))};
  }

 private:
  template <class F>
  std::unique_ptr<subword_worker> idle_worker_or(F&& make) {
    {
      const std::lock_guard lock(guard_);
      if (!idle_.empty()) {
        auto taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
    }
    return make();
  }

  void give_back(std::unique_ptr<subword_worker> x) noexcept {
    x->shed();
    try {
      const std::lock_guard lock(guard_);
      idle_.push_back(std::move(x));
    } catch (const std::bad_alloc&) {  // there is one the less
    }
  }

  std::mutex guard_;
  std::vector<std::unique_ptr<subword_worker>> idle_;
};

/// Every const method may be called from several threads at once, each with its own worker.
class subword_model {
 public:
  virtual ~subword_model() = default;

  virtual std::unique_ptr<subword_worker> make_worker() const = 0;

  /// Appends the ids of a word that is not empty. Throws input_error when the word cannot be
  /// encoded: a character that no token has, in a model without a token for what it does not know.
  virtual void append(std::string_view word,
                      std::vector<std::int32_t>& ids,
                      subword_worker& by) const = 0;
};

}  // namespace troupe::runtime
