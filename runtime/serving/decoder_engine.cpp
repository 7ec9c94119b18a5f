#include "runtime/serving/decoder_engine.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/inference/decoder.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/serving/token_picker.hpp"

#include <algorithm>
#include <deque>
#include <list>
#include <utility>

namespace troupe::runtime::serving {
namespace {

struct growing_text {
  std::uint64_t id = 0;
  served_request what;
  std::uint64_t key = 0;
  std::vector<std::int32_t> so_far = {};  ///< the prompt and what follows it
  std::size_t read = 0;                   ///< tokens that the decoder has read
  std::vector<token_choice> prompt = {};  ///< its choices, until the first event
  std::unique_ptr<decoder> state = {};

  std::size_t drawn() const { return so_far.size() - what.prompt.size(); }
};

class decoder_engine final : public text_engine {
 public:
  decoder_engine(loaded_model& model, const decoder_engine_settings& how)
      : model_(model),
        how_(how),
        ids_(std::min<std::int64_t>(model.text().vocabulary_size(),
                                    model.whole().model().head().vocabulary)) {}

  std::uint64_t add(served_request what) override {
    const auto size = std::int64_t(what.prompt.size());
    if (size == 0 || size + what.most_tokens > how_.context)
      throw input_error(
          "a prompt of {} tokens with {} more does not fit: it needs at least one token, and both "
          "together at most {}",
          size,
          what.most_tokens,
          how_.context);
    const auto key = random_key(what.sampling.seed, "serve", what.number * 65536 + what.copy);
    waiting_.push_back({++last_, std::move(what), key});
    waiting_.back().so_far = waiting_.back().what.prompt;
    return last_;
  }

  void cancel(std::uint64_t request) override {
    const auto is_it = [request](const growing_text& x) { return x.id == request; };
    std::erase_if(waiting_, is_it);
    running_.remove_if(is_it);
  }

  bool idle() const override { return waiting_.empty() && running_.empty(); }

  engine_counters counters() const override {
    return {.running = std::int64_t(running_.size()), .waiting = std::int64_t(waiting_.size())};
  }

  std::vector<served_event> step() override {
    while (!waiting_.empty() && std::int64_t(running_.size()) < how_.running) {
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    std::vector<served_event> out;
    running_.remove_if([&](growing_text& x) {
      served_event event{.request = x.id};
      try {
        if (!grow(x, event))
          return false;  // it reads its prompt
      } catch (const error& failure) {
        event.end = served_end::failed;
        event.why = failure.what();
      }
      out.push_back(std::move(event));
      return out.back().end.has_value();
    });
    return out;
  }

 private:
  /// Reads tokens of a text and adds one. Returns false without an event.
  bool grow(growing_text& x, served_event& to) {
    const auto& what = x.what;
    if (what.most_tokens == 0 && !what.prompt_choices) {
      to.end = served_end::length;
      return true;
    }
    if (!x.state)
      x.state = std::make_unique<decoder>(model_.whole(),
                                          model_.store(),
                                          model_.stream(),
                                          std::int64_t(what.prompt.size()) + what.most_tokens,
                                          true);
    // Log-probabilities of a prompt need the logits after each of its tokens.
    const auto next
        = what.prompt_choices && x.read < what.prompt.size() ? x.read + 1 : x.so_far.size();
    const std::vector<std::int32_t> fresh(x.so_far.begin() + std::ptrdiff_t(x.read),
                                          x.so_far.begin() + std::ptrdiff_t(next));
    const auto logits = x.state->advance({&fresh, 1}).first(std::size_t(ids_));
    x.read = next;
    require_finite(logits, x.read, model_.store().type());
    if (what.prompt_choices && x.read < what.prompt.size()) {
      x.prompt.push_back(choice_of(logits, what.prompt[x.read], what.alternatives.value_or(0)));
      return false;
    }
    to.prompt = std::exchange(x.prompt, {});
    if (what.most_tokens == 0)
      to.end = served_end::length;
    else
      draw(x, logits, to);
    return true;
  }

  static void draw(growing_text& x, std::span<const float> logits, served_event& to) {
    const auto& what = x.what;
    const auto drawn = std::int64_t(x.drawn());
    const std::span<const std::int32_t> banned
        = drawn < what.least_tokens ? std::span(what.ends) : std::span<const std::int32_t>();
    const auto token = pick(logits,
                            what.sampling,
                            x.so_far,
                            what.prompt.size(),
                            banned,
                            uniform(x.key, std::uint64_t(drawn)));
    if (std::ranges::find(what.ends, token) != what.ends.end()) {
      to.end = served_end::stop;
      return;
    }
    to.choice = choice_of(logits, token, what.alternatives.value_or(0));
    x.so_far.push_back(token);
    if (drawn + 1 == what.most_tokens)
      to.end = served_end::length;
  }

  loaded_model& model_;
  const decoder_engine_settings how_;
  const std::int64_t ids_;
  std::deque<growing_text> waiting_;
  std::list<growing_text> running_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<text_engine> make_decoder_engine(loaded_model& model,
                                                 const decoder_engine_settings& how) {
  return std::make_unique<decoder_engine>(model, how);
}

}  // namespace troupe::runtime::serving
