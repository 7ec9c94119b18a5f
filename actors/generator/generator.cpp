#include "actors/generator/generator.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/message_path.hpp"
#include "runtime/core/error.hpp"

#include <map>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

namespace serving = runtime::serving;

serving::served_request request_of(const messages::generate_text& x) {
  serving::served_request out{.prompt = x.prompt,
                              .most_tokens = x.most_tokens,
                              .least_tokens = x.least_tokens,
                              .ends = x.ends,
                              .sampling = {.temperature = float(x.temperature),
                                           .top_k = x.top_k,
                                           .top_p = float(x.top_p),
                                           .min_p = float(x.min_p),
                                           .repetition_penalty = float(x.repetition_penalty),
                                           .presence_penalty = float(x.presence_penalty),
                                           .frequency_penalty = float(x.frequency_penalty),
                                           .bias = {},
                                           .seed = x.seed},
                              .number = x.number,
                              .copy = x.copy};
  for (const auto& [token, value] : x.bias)
    out.sampling.bias.emplace_back(token, float(value));
  if (x.alternatives >= 0)
    out.alternatives = x.alternatives;
  out.prompt_choices = x.prompt_choices;
  return out;
}

messages::chosen_token chosen(const serving::token_choice& x) {
  messages::chosen_token out{x.token, double(x.log_probability), {}};
  for (const auto& [token, value] : x.alternatives)
    out.alternatives.push_back({token, double(value)});
  return out;
}

messages::grown_text grown(std::uint64_t request, const serving::served_event& x) {
  messages::grown_text out{.request = request, .cached_tokens = x.cached_tokens, .why = x.why};
  if (x.choice)
    out.choice.push_back(chosen(*x.choice));
  if (x.end)
    out.end = std::int32_t(*x.end);
  for (const auto& one : x.prompt)
    out.prompt.push_back(chosen(one));
  return out;
}

class generating {
 public:
  generating(messages::generator_actor::pointer self, std::shared_ptr<generator_resources> with)
      : self_(self), with_(std::move(with)) {}

  void add(const messages::generate_text& x) {
    server_ = caf::actor_cast<messages::server_actor>(self_->current_sender());
    try {
      if (!with_->texts)
        throw runtime::input_error("this model turns texts into vectors; it writes none");
      const auto id = with_->texts->add(request_of(x));
      requests_[id] = x.request;
      ids_[x.request] = id;
    } catch (const runtime::input_error& failure) {
      return tell({{.request = x.request,
                    .end = std::int32_t(serving::served_end::failed),
                    .why = failure.what()}});
    }
    step_later();
  }

  void stop(const messages::stop_text& x) {
    const auto found = ids_.find(x.request);
    if (found == ids_.end())
      return;
    with_->texts->cancel(found->second);
    forget(found->second);
  }

  void step() {
    is_due_ = false;
    std::vector<messages::grown_text> out;
    for (const auto& x : with_->texts->step()) {
      const auto found = requests_.find(x.request);
      if (found == requests_.end())
        continue;
      out.push_back(grown(found->second, x));
      if (x.end)
        forget(x.request);
    }
    tell(std::move(out));
    step_later();
  }

  void embed(const messages::embed_texts& x) {
    messages::texts_embedded out{.request = x.request};
    try {
      if (!with_->vectors)
        throw runtime::input_error("this model writes texts; it gives no vectors");
      std::vector<runtime::embedded_tokens> batch;
      for (const auto& words : x.words)
        batch.push_back(with_->vectors->encode(words));
      for (const auto& ids : x.ids)
        batch.push_back(with_->vectors->around(ids));
      for (const auto& one : batch) {
        const auto vector = with_->vectors->vectors({&one, 1});
        out.vectors.append(reinterpret_cast<const char*>(vector.data()),
                           vector.size() * sizeof(float));
        out.tokens += std::int64_t(one.ids.size());
      }
      out.width = with_->vectors->width();
    } catch (const runtime::input_error& failure) {
      out.refusal = failure.what();
    }
    path_.send(
        self_, caf::actor_cast<messages::server_actor>(self_->current_sender()), std::move(out));
  }

 private:
  void forget(std::uint64_t id) {
    ids_.erase(requests_.at(id));
    requests_.erase(id);
  }

  void step_later() {
    if (with_->texts->idle() || std::exchange(is_due_, true))
      return;
    path_.send(self_, messages::generator_actor(self_), messages::step_due{++steps_});
  }

  /// Tells the server also of a pass without a new token, so that it looks for lost clients.
  void tell(std::vector<messages::grown_text> texts) {
    const auto now = with_->texts ? with_->texts->counters() : serving::engine_counters();
    path_.send(self_,
               server_,
               messages::texts_grew{.texts = std::move(texts),
                                    .running = now.running,
                                    .waiting = now.waiting,
                                    .pages_used = now.pages_used,
                                    .pages_free = now.pages_free,
                                    .preemptions = now.preemptions});
  }

  messages::generator_actor::pointer self_;
  std::shared_ptr<generator_resources> with_;
  messages::server_actor server_;
  message_path path_;
  std::map<std::uint64_t, std::uint64_t> requests_, ids_;  ///< the server's by the engine's; back
  bool is_due_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace

messages::generator_actor::behavior_type generator(
    messages::generator_actor::pointer self, const std::shared_ptr<generator_resources>& with) {
  end_on_exception(self, "generator");
  const auto state = std::make_shared<generating>(self, with);
  return {[state](const messages::generate_text& x) { state->add(x); },
          [state](const messages::stop_text& x) { state->stop(x); },
          [state](const messages::embed_texts& x) { state->embed(x); },
          [state](const messages::step_due&) { state->step(); }};
}

}  // namespace troupe::actors
