#include "actors/server/server.hpp"

#include "actors/server/server_counts.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/message_path.hpp"
#include "messages/core/type_ids.hpp"
#include "runtime/core/random.hpp"
#include "runtime/serving/other_answers.hpp"
#include "runtime/serving/text_job.hpp"

#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <fmt/format.h>
#include <map>
#include <utility>

namespace troupe::actors {
namespace {

namespace http = runtime::http;
namespace serving = runtime::serving;
using serving::refusal;
using asked = request_desk::asked;

constexpr std::size_t most_ahead = 1 << 20;  ///< SERVER-3: bytes that a slow client has not read

messages::generate_text message_of(const serving::served_request& x, std::uint64_t request) {
  const auto& how = x.sampling;
  messages::generate_text out{.request = request,
                              .prompt = x.prompt,
                              .most_tokens = x.most_tokens,
                              .least_tokens = x.least_tokens,
                              .ends = x.ends,
                              .temperature = double(how.temperature),
                              .top_k = how.top_k,
                              .top_p = double(how.top_p),
                              .min_p = double(how.min_p),
                              .repetition_penalty = double(how.repetition_penalty),
                              .presence_penalty = double(how.presence_penalty),
                              .frequency_penalty = double(how.frequency_penalty),
                              .bias = {},
                              .seed = how.seed,
                              .number = x.number,
                              .copy = x.copy,
                              .alternatives = x.alternatives.value_or(-1),
                              .prompt_choices = x.prompt_choices};
  for (const auto& [token, value] : how.bias)
    out.bias.push_back({token, double(value)});
  return out;
}

serving::token_choice choice_of(const messages::chosen_token& x) {
  serving::token_choice out{.token = x.token, .log_probability = float(x.log_probability)};
  for (const auto& one : x.alternatives)
    out.alternatives.emplace_back(one.token, float(one.value));
  return out;
}

serving::served_event event_of(const messages::grown_text& x) {
  serving::served_event out{.request = x.request, .cached_tokens = x.cached_tokens, .why = x.why};
  if (!x.choice.empty())
    out.choice = choice_of(x.choice.front());
  if (x.end >= 0)
    out.end = serving::served_end(x.end);
  for (const auto& one : x.prompt)
    out.prompt.push_back(choice_of(one));
  return out;
}

class serving_state {
 public:
  serving_state(messages::server_actor::pointer self,
                std::shared_ptr<request_desk> desk,
                messages::generator_actor generator,
                const serving::served_model& model,
                server_settings how)
      : self_(self),
        desk_(std::move(desk)),
        generator_(std::move(generator)),
        model_(model),
        how_(std::move(how)) {}
  ~serving_state() { desk_->close(); }

  void take_requests() {
    while (auto next = desk_->take()) {
      const auto& x = *next;
      try {
        handle(x);
      } catch (const refusal& why) {
        refuse(x, why);
      } catch (const runtime::input_error& why) {
        refuse(x, refusal(400, why.what()));
      }
    }
  }

  void take(const messages::texts_grew& x) {
    engine_ = x;
    engine_.texts.clear();
    for (const auto& one : x.texts) {
      const auto found = texts_.find(one.request);
      if (found == texts_.end())
        continue;  // cancelled
      const auto [number, text] = found->second;
      auto& job = jobs_.at(number);
      if (!std::exchange(job.begun, true)) {
        ++counts_.first_tokens;
        counts_.first_token_seconds += seconds_since(job.since);
      }
      if (job.texts->take(text, event_of(one)))
        stop(one.request);
    }
    look_at_jobs();
  }

  void take(const messages::texts_embedded& x) {
    const auto found = embeddings_.find(x.request);
    if (found == embeddings_.end())
      return;
    const auto [to, base64] = std::move(found->second);
    embeddings_.erase(found);
    if (!x.refusal.empty())
      refuse(to, refusal(400, x.refusal));
    else
      answer(to,
             {.body = serving::embedding_answer(
                  model_.facts().model, x.vectors, x.width, x.tokens, base64)});
    end_if_drained();
  }

  void drain() {
    drains_ = true;
    end_if_drained();
  }

  /// The generator is gone.
  void fail(const std::string& why) {
    for (auto& [number, job] : jobs_)
      end_early(job, refusal(500, why));
    for (auto& [number, one] : embeddings_)
      refuse(one.first, refusal(500, why));
  }

 private:
  using moment = caf::actor_clock::time_point;

  struct job {
    asked to;
    std::unique_ptr<serving::text_job> texts;
    std::shared_ptr<runtime::part_queue> stream;  ///< null: a whole answer
    std::vector<std::uint64_t> numbers;           ///< of its texts
    moment since;
    bool begun = false;
  };

  moment now() const { return self_->home_system().clock().now(); }
  double seconds_since(moment x) const { return std::chrono::duration<double>(now() - x).count(); }

  void answer(const asked& to, http::response x) {
    ++counts_.answers[{to->asked().path.starts_with("/v1/models") ? "/v1/models" : to->asked().path,
                       x.status}];
    to->answer(std::move(x));
  }

  void refuse(const asked& to, const refusal& why) {
    http::response out{.status = why.status(), .body = error_body(why)};
    if (why.status() == 429 || why.status() == 503)
      out.headers.emplace_back("Retry-After", "1");
    answer(to, std::move(out));
  }

  void require_key(const http::request& x) const {
    bool found = how_.keys.empty();
    for (const auto& key : how_.keys)  // all, so that the time tells nothing
      found = http::is_token(http::bearer_token(x), key) || found;
    if (!found)
      throw refusal(
          401,
          "the request has no valid key: send one of the server's keys as 'Authorization: "
          "Bearer KEY'",
          "",
          "invalid_api_key");
  }

  void handle(const asked& x) {
    const auto& path = x->asked().path;
    if (path == "/health")
      return drains_ ? refuse(x, refusal(503, "this server ends"))
                     : answer(x, {.body = "{\"status\":\"ok\"}"});
    require_key(x->asked());
    if (path == "/metrics")
      return answer(
          x, {.type = "text/plain; version=0.0.4", .body = counts_.page(engine_, texts_.size())});
    if (path.starts_with("/v1/models"))
      return answer_models(x);
    const auto& body = x->asked().body;
    if (path == "/tokenize" || path == "/detokenize")
      return answer(
          x,
          {.body = path == "/tokenize" ? serving::tokenize_answer(body, model_, how_.date())
                                       : serving::detokenize_answer(body, model_)});
    if (drains_)
      throw refusal(503, "this server ends and takes no new requests; ask another one");
    if ((path == "/v1/embeddings") != how_.embeds)
      throw refusal(400,
                    how_.embeds ? "this server turns texts into vectors: use /v1/embeddings"
                                : "this server writes texts and gives no vectors");
    if (how_.embeds)
      embed(x, serving::embedding_in(body, model_.facts()));
    else
      begin(x,
            path == "/v1/completions" ? serving::completion_in(body, model_.facts())
                                      : serving::chat_in(body, model_.facts()));
  }

  void answer_models(const asked& x) {
    constexpr std::string_view list = "/v1/models";
    auto name = x->asked().path.substr(list.size());
    if (!name.empty() && name != "/" && name.substr(1) != model_.facts().model)
      throw refusal(404,
                    fmt::format("the model '{}' is not served here", name.substr(1)),
                    "model",
                    "model_not_found");
    answer(x, {.body = serving::models_answer(model_.facts(), how_.started, name.size() > 1)});
  }

  void require_room(std::size_t more) const {
    if (std::int64_t(texts_.size() + embeddings_.size() + more) > how_.most_open)
      throw refusal(429,
                    fmt::format("{} texts are open and {} more are too many: at most {}; try again "
                                "later",
                                texts_.size() + embeddings_.size(),
                                more,
                                how_.most_open),
                    "",
                    "rate_limit_exceeded");
  }

  void begin(const asked& x, serving::text_request what) {
    require_room(1);  // before the prompts are tokenized
    const auto number = ++last_;
    job made{.to = x, .texts = nullptr, .stream = nullptr, .numbers = {}, .since = now()};
    made.texts = std::make_unique<serving::text_job>(
        std::move(what),
        model_,
        fmt::format("{:016x}", runtime::random_key(how_.seed, "answer", number)),
        how_.date(),
        runtime::random_key(how_.seed, "request", number));
    require_room(made.texts->texts().size());
    counts_.prompt_tokens += std::uint64_t(made.texts->prompt_tokens());
    for (std::size_t i = 0; i < made.texts->texts().size(); ++i) {
      const auto text = ++last_text_;
      made.numbers.push_back(text);
      texts_[text] = {number, i};
      path_.send(self_, generator_, message_of(made.texts->texts()[i], text));
    }
    if (made.texts->streams()) {
      ++counts_.answers[{x->asked().path, 200}];
      made.stream = desk_->stream(*x);
    }
    jobs_.emplace(number, std::move(made));
  }

  void embed(const asked& x, serving::embedding_request what) {
    require_room(1);
    messages::embed_texts out{.request = ++last_};
    for (auto& one : what.inputs)
      if (auto* const words = std::get_if<std::string>(&one))
        out.words.push_back(std::move(*words));
      else
        out.ids.push_back(std::move(std::get<std::vector<std::int32_t>>(one)));
    if (!out.words.empty() && !out.ids.empty())
      throw refusal(400, "'input' mixes texts and token ids", "input");
    embeddings_[out.request] = {x, what.base64};
    path_.send(self_, generator_, std::move(out));
  }

  void stop(std::uint64_t text) {
    if (texts_.erase(text) > 0)
      path_.send(self_, generator_, messages::stop_text{text});
  }

  /// Sends what is new, ends finished jobs, and cancels those without a client or time.
  void look_at_jobs() {
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      auto& x = at->second;
      const bool left = x.stream ? x.stream->is_closed() : !x.to->has_client();
      const bool late = now() - x.since > how_.time;
      if (!left && !late && !deliver(x)) {
        ++at;
        continue;
      }
      for (const auto text : x.numbers)
        stop(text);
      if (!x.texts->is_done())
        ++counts_.cancelled;
      if (late && !left && !x.texts->is_done())
        end_early(x,
                  refusal(503,
                          fmt::format("the request took longer than {} s", how_.time.count()),
                          "",
                          "timeout"));
      counts_.generated_tokens += std::uint64_t(x.texts->generated_tokens());
      counts_.cached_tokens += std::uint64_t(x.texts->cached_tokens());
      counts_.request_seconds += seconds_since(x.since);
      ++counts_.requests;
      at = jobs_.erase(at);
    }
    end_if_drained();
  }

  /// Returns true if the job is over.
  bool deliver(job& x) {
    const bool done = x.texts->is_done();
    if (!x.stream) {
      if (done && !x.texts->failure().empty())
        refuse(x.to, refusal(500, x.texts->failure()));
      else if (done)
        answer(x.to, {.body = x.texts->answer()});
      return done;
    }
    if (x.stream->waiting() > most_ahead) {
      end_early(x, refusal(503, "the client reads too slowly", "", "slow_client"));
      return true;
    }
    x.stream->put(x.texts->take_events());
    if (done)
      x.stream->end();
    return done;
  }

  void end_early(job& x, const refusal& why) {
    if (!x.stream)
      return refuse(x.to, why);
    x.stream->put("data: " + error_body(why) + "\n\n");
    x.stream->end();
  }

  void end_if_drained() {
    if (drains_ && jobs_.empty() && embeddings_.empty())
      self_->quit();
  }

  messages::server_actor::pointer self_;
  std::shared_ptr<request_desk> desk_;
  messages::generator_actor generator_;
  const serving::served_model& model_;
  const server_settings how_;
  message_path path_;
  std::map<std::uint64_t, job> jobs_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::size_t>> texts_;  ///< job and place in it
  std::map<std::uint64_t, std::pair<asked, bool>> embeddings_;            ///< bool: base64
  std::uint64_t last_ = 0, last_text_ = 0;
  messages::texts_grew engine_;  ///< the newest, without texts
  server_counts counts_;
  bool drains_ = false;
};

messages::server_actor::behavior_type server(messages::server_actor::pointer self,
                                             const std::shared_ptr<request_desk>& desk,
                                             const messages::generator_actor& generator,
                                             const serving::served_model* model,
                                             const server_settings& how) {
  end_on_exception(self, "server");
  const auto state = std::make_shared<serving_state>(self, desk, generator, *model, how);
  self->monitor(generator);
  self->set_down_handler([self, state](const caf::down_msg& x) {
    state->fail("the model failed: " + messages::text_of(x.reason));
    self->quit(because_of("server", x.reason));
  });
  return {[state](const messages::requests_wait&) { state->take_requests(); },
          [state](const messages::texts_grew& x) { state->take(x); },
          [state](const messages::texts_embedded& x) { state->take(x); },
          [state](const messages::drain&) { state->drain(); }};
}

}  // namespace

messages::server_actor spawn_server(caf::actor_system& system,
                                    const std::shared_ptr<request_desk>& desk,
                                    const messages::generator_actor& generator,
                                    const serving::served_model& model,
                                    server_settings how) {
  auto out = system.spawn<caf::detached>(server, desk, generator, &model, std::move(how));
  const auto number = std::make_shared<std::atomic<std::uint64_t>>(0);
  desk->on_request([to = out, number] {
    message_path().send_from_outside(to, messages::requests_wait{++*number});
  });
  return out;
}

}  // namespace troupe::actors
