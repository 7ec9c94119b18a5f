#include "actors/command/commands.hpp"
#include "actors/command/hub_models.hpp"
#include "actors/command/model_flags.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "actors/command/tokenizer_chat.hpp"
#include "actors/generator/generator.hpp"
#include "actors/server/server.hpp"
#include "actors/support/message_path.hpp"
#include "messages/core/error.hpp"
#include "messages/core/type_ids.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/serving/decoder_engine.hpp"
#include "runtime/watch/page_routes.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

namespace serving = runtime::serving;
namespace http = runtime::http;

struct serve_flags {
  model_flags model;
  std::string host = "127.0.0.1", name, chat_template;
  std::int64_t port = 8000;
  std::vector<std::string> names;
  std::filesystem::path keys;
  bool embeds = false, web = false;
  std::int64_t context = 0, running = 8, waiting = 256, connections = 256, seconds = 600, body = 4;
};

std::vector<std::string> keys_in(const std::filesystem::path& file) {
  std::vector<std::string> out;
  if (file.empty())
    return out;
  auto text = runtime::read_text(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    begin = end + 1;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (!line.empty() && !line.starts_with('#'))
      out.push_back(std::move(line));
  }
  if (out.empty())
    throw runtime::input_error("--api-key-file '{}' has no keys: write one per line",
                               file.string());
  return out;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The templates of the tokenizer's folder; none if it has none.
std::optional<runtime::chat_template> template_of(const serve_flags& flags, bool tools) {
  const auto folder = flags.model.tokenizer.empty() ? runtime::kept_tokenizer(flags.model.load)
                                                    : flags.model.tokenizer;
  if (flags.chat_template.empty() && runtime::chat_templates_in(folder).by_name.empty())
    return {};
  return chat_template_for(folder, flags.chat_template, tools);
}

std::string name_of(const serve_flags& flags, const std::filesystem::path& asked) {
  if (!flags.name.empty())
    return flags.name;
  if (names_hub_model(asked))
    return asked.string();
  const auto path = std::filesystem::absolute(asked).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

serving::served_facts facts_of(const serve_flags& flags,
                               const std::string& name,
                               const runtime::loaded_model& model) {
  const auto& spec = model.whole().model();
  const auto most = spec.positions() > 0 ? spec.positions() : spec.sequence;
  if (spec.positions() > 0 && flags.context > spec.positions())
    throw usage_error("--max-context {}: the model has {} learned positions; give at most these",
                      flags.context,
                      spec.positions());
  return {.model = name,
          .vocabulary = model.text().vocabulary_size(),
          .context = flags.context > 0 ? flags.context : most};
}

/// Drains the server at the first signal, also at one that comes before the server runs.
class drain_order {
 public:
  void give(const char* name) {
    const std::lock_guard lock(mutex_);
    signal_ = name;
    send();
  }
  void reach(messages::server_actor server) {
    const std::lock_guard lock(mutex_);
    server_ = std::move(server);
    send();
  }

 private:
  void send() const {
    if (server_ && !signal_.empty())
      actors::message_path().send_from_outside(server_, messages::drain{signal_});
  }

  std::mutex mutex_;
  std::string signal_;
  messages::server_actor server_;
};

http::settings http_settings(const serve_flags& flags) {
  http::settings out;
  out.limits.body_bytes = std::size_t(flags.body) << 20;
  out.limits.connections = std::size_t(flags.connections);
  out.names = flags.names;
  return out;
}

/// Serves until a signal or a failure of the model. Returns the exit code.
int serve_model(const serve_flags& flags,
                const std::vector<std::string>& keys,
                const serving::served_model& model,
                const std::shared_ptr<actors::generator_resources>& with,
                drain_order& order) {
  caf::actor_system_config config;
  messages::add_message_types(config);
  caf::actor_system system(config);
  const auto generator = system.spawn<caf::detached>(actors::generator, with);
  const auto desk = std::make_shared<actors::request_desk>();
  auto routes = desk->routes();
  if (flags.web)
    for (auto& one : runtime::page_routes(runtime::chat_page_files()))
      routes.push_back(std::move(one));
  const http::endpoint at{.address = runtime::numeric_address(flags.host),
                          .port = std::uint16_t(flags.port)};
  std::random_device random;
  const auto server = actors::spawn_server(system,
                                           desk,
                                           generator,
                                           model,
                                           {.keys = keys,
                                            .most_open = flags.running + flags.waiting,
                                            .time = std::chrono::seconds(flags.seconds),
                                            .seed = std::uint64_t(random()) << 32 | random(),
                                            .started = seconds_since_1970(),
                                            .embeds = flags.embeds,
                                            .date = seconds_since_1970});
  int code = 0;
  {
    caf::scoped_actor self(system);
    self->monitor(server);
    std::unique_ptr<http::server> front;
    try {
      front = std::make_unique<http::server>(
          std::vector{at}, std::move(routes), http_settings(flags));
      if (keys.empty() && !runtime::is_loopback(at.address))
        runtime::log_warning(
            "every host that reaches {} may use this server: give keys by --api-key-file",
            flags.host);
      const bool is_v6 = at.address.find(':') != std::string::npos;
      print_page("serving {} at http://{}{}{}:{}{}\n",
                 model.facts().model,
                 is_v6 ? "[" : "",
                 at.address,
                 is_v6 ? "]" : "",
                 front->ports().front(),
                 flags.web ? "/ (a chat page), API below /v1" : "/v1");
      std::fflush(stdout);
      order.reach(server);
    } catch (...) {
      caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
      caf::anon_send_exit(generator, caf::exit_reason::user_shutdown);
      throw;
    }
    self->receive([&](const caf::down_msg& x) {
      if (x.reason) {
        runtime::log_error("{}", messages::text_of(x.reason));
        code = 3;
      }
    });
    // Clients read the rest of their streams.
    for (int i = 0; i < 500 && desk->streams() > 0; ++i)
      runtime::sleep_for(std::chrono::milliseconds(10));
  }
  order.reach({});
  caf::anon_send_exit(generator, caf::exit_reason::user_shutdown);
  return code;
}

int serve(serve_flags flags) {
  drain_order order;
  const signal_watch signals([&](const char* name) { order.give(name); });
  const auto keys = keys_in(flags.keys);
  const auto asked = flags.model.load;
  find_hub_models(flags.model);
  const auto model = load(
      flags.model, flags.embeds ? runtime::model_use::embeds : runtime::model_use::continues);
  auto facts = facts_of(flags, name_of(flags, asked), *model);
  const auto with = std::make_shared<actors::generator_resources>();
  if (flags.embeds)
    with->vectors = std::make_unique<runtime::embedder>(
        *model, runtime::text_vector::mean, model->whole().model().sequence);
  else
    with->texts = serving::make_decoder_engine(
        *model, {.running = flags.running, .context = facts.context});
  const auto one = flags.embeds ? std::nullopt : template_of(flags, false);
  const auto tools = flags.embeds ? std::nullopt : template_of(flags, true);
  const serving::served_model served(std::move(facts), model->text(), one, tools);
  const int code = serve_model(flags, keys, served, with, order);
  with->vectors.reset();  // before the model
  with->texts.reset();
  return code;
}

void declare_limits(command_line& line, serve_flags& f) {
  line.group("Limits");
  line.value({.name = "--max-context",
              .type = "N",
              .unit = "tokens",
              .default_value = "the model's positions or training length",
              .help = "Largest length of a prompt and its continuation together."},
             whole(f.context, 2));
  line.value({.name = "--max-running",
              .type = "N",
              .unit = "texts",
              .help = "Texts that are computed in turn; each has a cache of its own."},
             whole(f.running, 1, 4096));
  line.value({.name = "--max-waiting",
              .type = "N",
              .unit = "texts",
              .help = "Further texts that wait; more are refused with status 429."},
             whole(f.waiting, 0, 1 << 20));
  line.value({.name = "--max-connections",
              .type = "N",
              .help = "Open connections; further ones are closed at once."},
             whole(f.connections, 1, 65536));
  line.value({.name = "--max-body",
              .type = "N",
              .unit = "MiB",
              .help = "Size of a request; a larger one is refused with status 413."},
             whole(f.body, 1, 1024));
  line.value({.name = "--request-timeout",
              .type = "N",
              .unit = "seconds",
              .help = "Time of a request; then it is cancelled, and answered with status 503."},
             whole(f.seconds, 1, 86400));
}

}  // namespace

void add_serve(command_line& program) {
  auto& line = program.command("serve", "answers OpenAI's HTTP API with a trained model.");
  const auto flags = std::make_shared<serve_flags>();
  auto& f = *flags;
  line.begins_with(
      "Clients of OpenAI's API work unchanged: give them the printed address as their base URL. "
      "SIGTERM or Ctrl-C ends the server when its running requests are answered; a second signal "
      "ends it at once.");
  line.group("Address");
  line.value(
      "--host",
      "ADDRESS",
      "Address to listen at; 0.0.0.0 is every one of this host. There is no TLS: put a proxy "
      "with TLS before the server.",
      text(f.host));
  line.value(
      {.name = "--port", .type = "N", .help = "TCP port; 0: any free one, which is printed."},
      whole(f.port, 0, 65535));
  line.values("--host-names",
              "NAME",
              1,
              64,
              "Names by which clients may call this server, besides addresses and localhost. Other "
              "names are refused, because pages of other sites could use them.",
              all(f.names));
  line.value("--api-key-file",
             "FILE",
             "Keys, one per line; a request needs one as bearer token. Without this flag every "
             "client is served. /health needs no key.",
             text(f.keys));
  line.toggle("--web", "Serves a chat page at /.", [flags] { flags->web = true; });
  line.group("API");
  line.value({.name = "--served-model-name",
              .type = "NAME",
              .default_value = "the name of the model or its folder",
              .help = "Name of the model in requests and answers."},
             text(f.name));
  line.value({.name = "--template",
              .type = "NAME",
              .default_value = "default",
              .help = "Chat template if the tokenizer's folder has several; or a file: its name "
                      "has a / or ends in .jinja."},
             text(f.chat_template));
  line.toggle("--embeddings",
              "Serves /v1/embeddings by an encoder such as a BERT, instead of texts.",
              [flags] { flags->embeds = true; });
  declare_limits(line, f);
  declare(line, f.model);
  line.note(
      "Example: troupe serve --load runs/a/checkpoints --web, then: curl "
      "http://127.0.0.1:8000/v1/completions -d '{\"prompt\": \"Once\", \"max_tokens\": 20}'");
  line.runs([flags] { return serve(*flags); });
}

}  // namespace troupe::command
