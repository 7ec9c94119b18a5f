// Beam search: the texts with the highest probability among those that a few partial texts lead to.
//
// A beam is a partial text. Its score is the sum of the log-probabilities of its tokens. Each step
// ranks all continuations of all beams by one token:
//
//   * the best ones that do not end are the beams of the next step;
//   * an ended one counts if it is among the first `beams` continuations. Its final score is
//     score / length^length_penalty; the best `beams` ended texts are kept.
//
// Scores are sums in double. Among equal scores the earlier beam is first, then the smaller id;
// among equal final scores the text that ended first. Results are those of `generate` of
// transformers 5 (num_beams, length_penalty, early_stopping), up to the rounding of its float sums
// and its order of equal scores.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

/// When a search ends that has as many ended texts as beams.
enum class beam_stop : std::uint8_t {
  likely,  ///< if the best beam, ended now, would not be kept
  full,    ///< at once
  never    ///< as `likely`, but for the most favourable length that the beam can reach
};

struct beam_settings {
  std::int64_t beams = 4;
  std::int64_t returned = 1;  ///< texts, at most `beams`
  double length_penalty = 1;  ///< above 0 favours long texts, below 0 short ones
  beam_stop stop = beam_stop::likely;
};

/// A text of a search.
struct beam_text {
  std::vector<std::int32_t> tokens;  ///< without the prompt and the end token
  double score = 0;                  ///< final score
  bool ended = false;                ///< by an end token; else it has the largest length
};

/// The search for one prompt. Give it the logits after the prompt, then those after each beam.
class beam_search {
 public:
  /// Texts have at most `most` tokens, with the end token. `ids`: tokens have a smaller id. `ends`:
  /// the end tokens, different ones.
  beam_search(const beam_settings& settings,
              std::int64_t most,
              std::int64_t ids,
              std::vector<std::int32_t> ends);

  /// Logits (beams, stride) after each beam; before the first step only those of beam 0 are read.
  /// Log-probabilities are over the first `vocabulary` logits of each.
  void advance(std::span<const float> logits, std::int64_t stride, std::int64_t vocabulary);

  bool done() const { return done_; }
  /// The beams of the next step: at most beam_settings::beams, at least one unless done.
  struct beam {
    std::vector<std::int32_t> tokens;  ///< without the prompt
    double score = 0;                  ///< sum of log-probabilities
    std::size_t source = 0;            ///< the beam of the last step that it continues
  };
  const std::vector<beam>& beams() const { return beams_; }

  /// The ended texts, best first: beam_settings::returned, or all there are. Only when done.
  std::vector<beam_text> texts() const;

 private:
  struct continuation {
    double score = 0;
    std::size_t source = 0;
    std::int32_t token = 0;
  };
  std::vector<continuation> best(std::span<const float> logits,
                                 std::int64_t stride,
                                 std::int64_t vocabulary) const;
  double final_score(double score, std::int64_t tokens) const;
  bool is_end(std::int32_t token) const;
  void keep(const continuation& x);
  bool may_improve() const;

  beam_settings settings_;
  std::int64_t most_, ids_;
  std::vector<std::int32_t> ends_;
  std::int64_t steps_ = 0;
  std::vector<beam> beams_{1};
  std::vector<beam_text> ended_;  ///< best first
  bool done_ = false;
};

}  // namespace troupe::runtime
