// One request of /v1/completions or /v1/chat/completions while its texts grow: turns the engine's
// events into OpenAI's answer, whole or as server-sent events.

#pragma once

#include "runtime/serving/choice_text.hpp"
#include "runtime/serving/served_model.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime::serving {

/// Used by one thread. The model must outlive it.
class text_job {
 public:
  /// `id`: without its prefix. `created`: seconds since 1970. `fresh`: as served_model::texts_of.
  /// Throws `refusal`.
  text_job(text_request what,
           const served_model& model,
           const std::string& id,
           std::int64_t created,
           std::uint64_t fresh);

  /// The texts to generate; `take` names one by its place. Of a stream, some may be ended already.
  const std::vector<served_request>& texts() const { return texts_; }
  bool streams() const { return what_.stream; }

  /// Takes an event of a text. Ignores events after the text's end. Returns true if the text is
  /// complete but the engine must be told to cancel it, because a stop text was found.
  bool take(std::size_t text, const served_event& x);

  bool is_done() const { return open_ == 0 || !failure_.empty(); }
  /// Why a text failed; empty: none did.
  const std::string& failure() const { return failure_; }

  /// Server-sent events that were not taken yet; the last call, after is_done, ends the stream.
  std::string take_events();
  /// The whole answer, after is_done without a failure.
  std::string answer() const;

  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t generated_tokens() const;
  std::int64_t cached_tokens() const { return cached_tokens_; }

 private:
  struct choice {
    std::unique_ptr<choice_text> text;
    std::string whole = {};                  ///< the text so far, with the echoed prompt
    std::vector<token_choice> choices = {};  ///< all shown tokens
    std::int64_t offset = 0;                 ///< of the next token, in characters
    std::string end = {};                    ///< finish_reason; empty: it grows
    stop_words marker = stop_words({});      ///< finds the first call of a tool
  };

  void add(choice& to, std::size_t index, const std::string& piece);
  void end(choice& to, std::size_t index, std::string reason);
  void send(std::size_t index, json delta, json choices, const json& reason);
  json head(const char* object) const;
  json usage() const;
  json shown_choices(choice& to, const std::vector<token_choice>& some);
  json whole_choice(std::size_t index, std::size_t shown_as) const;

  text_request what_;
  const served_model& model_;
  std::string id_;
  std::int64_t created_;
  std::vector<served_request> texts_;
  std::vector<choice> choices_;
  std::size_t open_ = 0;
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0;
  std::string failure_, events_;
  bool closed_ = false;  ///< the end of the stream was taken
};

}  // namespace troupe::runtime::serving
