#include "runtime/inference/generate_beams.hpp"

#include <algorithm>
#include <set>

namespace troupe::runtime {
namespace {

std::vector<std::int32_t> ends_of(const generation_request& what) {
  std::set<std::int32_t> out(what.other_ends.begin(), what.other_ends.end());
  if (what.end_of_document >= 0)
    out.insert(what.end_of_document);
  return {out.begin(), out.end()};
}

/// The searches of all requests, whose beams are sequences of one decoder: those of request r are
/// r * beams and the next ones.
class searches {
 public:
  searches(std::span<const generation_request> what,
           const beam_settings& settings,
           const model_spec& model)
      : what_(what), beams_(std::size_t(settings.beams)), head_(model.head()) {
    for (const auto& x : what)
      all_.emplace_back(settings, tokens_allowed(x, model), ids_allowed(x, model), ends_of(x));
  }

  bool done() const { return std::ranges::all_of(all_, &beam_search::done); }

  /// `each`: sequences of each request in `logits`.
  void advance(std::span<const float> logits, std::size_t each, std::size_t step, dtype precision) {
    const auto row = std::size_t(head_.padded_vocabulary);
    for (std::size_t r = 0; r < all_.size(); ++r) {
      if (all_[r].done())
        continue;
      const auto own = logits.subspan(r * each * row, each * row);
      for (std::size_t b = 0; b < all_[r].beams().size(); ++b)
        require_finite(own.subspan(b * row, std::size_t(head_.vocabulary)),
                       what_[r].prompt.size() + step,
                       precision);
      all_[r].advance(own, head_.padded_vocabulary, head_.vocabulary);
    }
  }

  /// The sequence that each sequence continues, of `each` for a request.
  std::vector<std::size_t> sources(std::size_t each) const {
    std::vector<std::size_t> out;
    for (std::size_t r = 0; r < all_.size(); ++r)
      for (std::size_t b = 0; b < beams_; ++b) {
        const auto* const x = beam(r, b);
        out.push_back(r * each + (x != nullptr ? x->source : std::min(b, each - 1)));
      }
    return out;
  }

  /// The newest token of each sequence; sequences without a beam get a dummy token.
  std::vector<std::vector<std::int32_t>> tokens() const {
    std::vector<std::vector<std::int32_t>> out;
    for (std::size_t r = 0; r < all_.size(); ++r)
      for (std::size_t b = 0; b < beams_; ++b) {
        const auto* const x = beam(r, b);
        out.push_back({x != nullptr ? x->tokens.back() : 0});
      }
    return out;
  }

  std::vector<std::vector<beam_text>> texts() const {
    std::vector<std::vector<beam_text>> out;
    for (const auto& x : all_)
      out.push_back(x.texts());
    return out;
  }

 private:
  /// Null: the request has no such beam, or is done.
  const beam_search::beam* beam(std::size_t request, std::size_t number) const {
    const auto& x = all_[request];
    return !x.done() && number < x.beams().size() ? &x.beams()[number] : nullptr;
  }

  std::span<const generation_request> what_;
  std::size_t beams_;
  const head_spec& head_;
  std::vector<beam_search> all_;
};

}  // namespace

std::vector<std::vector<beam_text>> generate_beams(const chunk& whole,
                                                   parameter_store& store,
                                                   stream& stream,
                                                   std::span<const generation_request> what,
                                                   const beam_settings& settings,
                                                   bool cached,
                                                   const given_text* given,
                                                   const std::function<bool()>& wanted) {
  std::vector<std::vector<std::int32_t>> fresh;
  std::int64_t longest_prompt = 0, most = 1;
  for (const auto& x : what) {
    require_fitting(x, whole.model());
    fresh.push_back(x.prompt);
    longest_prompt = std::max(longest_prompt, std::int64_t(x.prompt.size()));
    most = std::max(most, tokens_allowed(x, whole.model()));
  }
  searches all(what, settings, whole.model());
  decoder state(whole, store, stream, longest_prompt + most, cached, what.size());
  if (given != nullptr)
    read_given(state, stream, what, *given);
  // Each prompt is computed once.
  for (std::size_t step = 0, each = 1; !all.done(); ++step) {
    if (step > 0) {
      state.select(all.sources(each));
      fresh = all.tokens();
      each = std::size_t(settings.beams);
    }
    all.advance(state.advance(fresh), each, step, store.type());
    if (!wanted())
      return {};
  }
  return all.texts();
}

generation_end end_of(const beam_text& text,
                      const generation_request& what,
                      const model_spec& model) {
  if (text.ended)
    return generation_end::end_of_document;
  return tokens_allowed(what, model) < what.tokens ? generation_end::end_of_positions
                                                   : generation_end::enough;
}

}  // namespace troupe::runtime
