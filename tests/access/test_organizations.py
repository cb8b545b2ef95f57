"""A1, C4: two organizations hold the same; whatever one asks, with whatever ids of the other, it finds and changes nothing.

What is asked is made from the OpenAPI document, what is looked for from the database, so a new route or table is covered
without a word here.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import sqlalchemy as sa

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
EVERYBODYS = {"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"}
TEXTS = 3
# What the gate notes by itself.
NOT_COMPARED = {"last_used_at"}


class Organization:
    """An organization with everything in it that one can ask it to make."""

    def __init__(self, base: Any, name: str) -> None:
        self.base = base
        self.name = name
        self.key: str = base.key("admin", name)
        self.word = f"{name}word"
        self.hidden = [f"{name}hidden{number}" for number in range(TEXTS)]
        self.tokens: dict[str, list[str]] = {}
        self.seen: list[str] = []
        self._plant()
        self.rows = self.dump()
        self.secrets = set(UUID.findall(json.dumps([self.rows, self.seen]))) - EVERYBODYS
        self.uuids = self._some_of_each()
        self.chunk_ids = [row["id"] for row in self.rows["chunks"]]
        self.document_ids = [row["id"] for row in self.rows["documents"]]

    def _some_of_each(self) -> list[str]:
        """Ids to ask for: a few of every column that holds any, and of those that only answers told."""
        few: dict[str, None] = {}
        for rows in self.rows.values():
            for column in rows[0] if rows else ():
                values = [
                    row[column]
                    for row in rows
                    if isinstance(row[column], str) and UUID.fullmatch(row[column])
                ]
                few |= dict.fromkeys([*values[:2], *values[-1:]])
        told = set(UUID.findall("".join(self.seen))) - set(UUID.findall(json.dumps(self.rows)))
        return sorted((few.keys() | set(sorted(told)[:10])) - EVERYBODYS)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.base.ask(self.key, method, path, body)

    def keep(self, reply: Any) -> Any:
        """Remember what an answer gave: ids, and tokens by the name of their field."""
        if (
            not reply.headers.get("content-type", "").startswith("application/json")
            or not reply.body
        ):
            return None
        parsed = json.loads(reply.body)
        self.seen.append(reply.body.decode())
        for name, value in _fields(parsed):
            if isinstance(value, str) and (
                name in {"plan", "next_cursor", "cursor"} or name.endswith("token")
            ):
                self.tokens.setdefault(name.removeprefix("next_"), []).append(value)
        return parsed

    def _plant(self) -> None:
        engine = self.base.engine(self.key)
        for number, hidden in enumerate(self.hidden):
            text = f"# {hidden}title\n\n{self.word} and {hidden} in a sentence of its own.\n"
            engine.add_file(
                f"{hidden}.md",
                text.encode(),
                tags=[f"{self.name}tag", "common"],
                source=f"/{self.name}/{number}.md",
            )
        engine.add_file(
            "same.md", b"# Same\n\nthe same words in both organizations\n", tags=["common"]
        )
        for number in range(8):
            engine.add_note(f"{self.word} note {number} {self.hidden[0]}", tags=[f"{self.name}tag"])
        engine.set_role(f"{self.name}-role", ["documents.read"])
        self.keep(self.ask("POST", "/api/v1/uploads", {"filename": "a.md"}))
        archive = self.ask("GET", "/api/v1/export").body
        octets = {"Content-Type": "application/octet-stream"}
        self.keep(self.base.ask(self.key, "POST", "/api/v1/import", archive, octets))
        self.document_ids = [item["id"] for item in engine.list_documents(per_page=100)["data"]]
        self.chunk_ids = [
            chunk["id"]
            for number in self.document_ids[:3]
            for chunk in engine.get_document_chunks(number)["data"]
        ]
        self.uuids = list(self.chunk_ids)
        self.rows = self.dump()
        # Whatever else there is to make (events, plans, snapshots, holds), it makes with its own ids.
        for operation in self.base.operations():
            if (
                not operation.permission.endswith(("delete", "delete_hard", "release"))
                and operation.method != "DELETE"
            ):
                for path, body in requests(operation, self, self.base.openapi, most=6):
                    if "/keys" not in path and "/reindex" not in path and "/repair" not in path:
                        self.keep(self.ask(operation.method, path, body))

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table that belongs to the organization."""
        with self.base.kb.store.read() as tx:
            mine = tx.scalar(
                sa.text("SELECT id FROM organizations WHERE name = :name").bindparams(
                    name=self.name
                )
            )
            found = {}
            names = sa.inspect(tx.connection).get_table_names()
            # Vector indexes are derived, and their tables are the extension's.
            for table in sorted(name for name in names if not name.startswith("chunks_vec")):
                columns = [
                    column["name"] for column in sa.inspect(tx.connection).get_columns(table)
                ]
                if "organization_id" in columns:
                    query = sa.text(
                        f"SELECT * FROM {table} WHERE organization_id = :mine"
                    ).bindparams(mine=mine)
                    rows = [dict(row) for row in tx.rows(query)]
                    kept = [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows]
                    # PostgreSQL gives rows in no order.
                    found[table] = sorted(kept, key=repr)
        return found


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            yield from _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner)


# Requests made from the document


def values_for(
    name: str, schema: dict[str, Any], other: Organization, document: dict[str, Any]
) -> list[Any]:
    """What a field could be that is the other's."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return [value for option in options for value in values_for(name, option, other, document)]
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    kind = schema.get("type")
    kind = next((item for item in kind if item != "null"), None) if isinstance(kind, list) else kind
    if kind == "boolean":
        return [True]
    if kind in {"integer", "number"}:
        return [other.document_ids[0]] if name.endswith("id") else [1]
    if kind == "array":
        inner = schema.get("items", {})
        if inner.get("type") == "integer":
            return [list(other.document_ids)]
        found = values_for(name.removesuffix("s"), inner, other, document)
        return [found] if found else []
    if kind == "object":
        made = {
            key: values_for(key, sub, other, document)
            for key, sub in schema.get("properties", {}).items()
        }
        return [{key: found[0] for key, found in made.items() if found}] if made else [{}]
    if kind == "string":
        return strings_for(name, schema, other)
    # What the document leaves open, the route checks by itself: a list, by its name, or text.
    return (
        [strings_for(name, schema, other)]
        if name.endswith("s")
        else strings_for(name, schema, other)
    )


def strings_for(name: str, schema: dict[str, Any], other: Organization) -> list[str]:
    if name in other.tokens:
        return other.tokens[name][:3]
    if name in {"query", "q", "text", "snippet_text"}:
        return [other.word]
    if "tag" in name or name in {"old", "add", "remove", "into"}:
        return [f"{other.name}tag"]
    if name in {"organization", "org"}:
        return [other.name]
    if name == "source":
        return [f"/{other.name}/0.md"]
    if name == "role":
        return ["viewer", f"{other.name}-role"]
    if name.endswith(("id", "ids", "ref")) or schema.get("format") == "uuid":
        return other.chunk_ids[:3] if "chunk" in name else other.uuids
    return [other.word]


def requests(
    operation: Any, other: Organization, document: dict[str, Any], most: int = 10**6
) -> Iterator[tuple[str, Any]]:
    """Paths with the other's ids, each alone; and one path with bodies and queries that name what is the other's."""
    described = operation.described
    parameters = described.get("parameters", [])
    places = [item for item in parameters if item["in"] == "path"]
    choices = []
    for item in places:
        choices.append(places_for(item, other))
    bodies = list(itertools.islice(_bodies(described, other, document), most))
    queries = [""]
    for item in parameters:
        if item["in"] == "query":
            for value in values_for(item["name"], item["schema"], other, document)[:3]:
                queries.append("?" + urlencode({item["name"]: value}, doseq=True))
    for number, chosen in enumerate(itertools.islice(itertools.product(*choices), most)):
        path = operation.path
        for item, value in zip(places, chosen, strict=True):
            path = path.replace("{" + item["name"] + "}", quote(str(value)))
        first = number == 0
        for query in queries if first else queries[:1]:
            yield path + query, bodies[0]
        for body in bodies[1:] if first else ():
            yield path, body


def places_for(parameter: dict[str, Any], other: Organization) -> list[Any]:
    table = other.rows.get(parameter["name"].removesuffix("_id") + "s", [])
    if "integer" in json.dumps(parameter["schema"]):
        return [row["id"] for row in table] or other.document_ids
    if parameter["name"].endswith("_id"):
        return [*(row["id"] for row in table[:3]), *other.uuids]
    return [f"{other.name}-role"]


def _bodies(
    described: dict[str, Any], other: Organization, document: dict[str, Any]
) -> Iterator[Any]:
    content = described.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        yield b"" if content else None
        return
    schema = content["application/json"]["schema"]
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    fields = {
        name: values_for(name, sub, other, document)
        for name, sub in schema.get("properties", {}).items()
    }
    required = {name: fields[name][0] for name in schema.get("required", ()) if fields.get(name)}
    yield required
    for name, found in fields.items():
        for value in found[:8]:
            yield {**required, name: value}
            yield {**required, name: value, **({"force": True} if "force" in fields else {})}
    # Operations over a selection need their own fields beside the filter.
    filters = [name for name in fields if name not in required]
    for one, two in itertools.islice(itertools.combinations(filters, 2), 10):
        if fields[one] and fields[two]:
            yield {**required, one: fields[one][0], two: fields[two][0]}


# The tests


@pytest.fixture(scope="module")
def both(shared: Any) -> tuple[Organization, Organization]:
    alpha, beta = Organization(shared, "alpha"), Organization(shared, "beta")
    alpha.rows, beta.rows = alpha.dump(), beta.dump()
    return alpha, beta


def contents(reply: Any) -> str:
    """What an answer says, also inside an archive."""
    if reply.body[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
            return "\n".join(
                [
                    *archive.namelist(),
                    *(archive.read(name).decode("utf-8", "replace") for name in archive.namelist()),
                ]
            )
    return reply.body.decode("utf-8", "replace")


def leaked(text: str, sent: str, secrets: set[str], words: Iterable[str]) -> list[str]:
    found = [*(secrets & set(UUID.findall(text))), *(word for word in words if word in text)]
    return [secret for secret in found if secret not in sent]


def test_both_hold_the_same_and_see_their_own(both: tuple[Organization, Organization]) -> None:
    for mine in both:
        # As it is now: other tests have added to it, or not yet.
        mine_now = mine.dump()
        assert {table for table, rows in mine_now.items() if rows} >= {
            "documents",
            "chunks",
            "document_tags",
            "jobs",
            "uploads",
            "document_sources",
            "api_keys",
            "users",
            "roles",
            "access_events",
        }
        engine = mine.base.engine(mine.key)
        for mode in ("lexical", "vector", "hybrid"):
            hits = engine.search(mine.word, mode=mode, k=20)["hits"]
            assert hits, mode
            assert {hit["chunk_id"] for hit in hits} <= {row["id"] for row in mine_now["chunks"]}
        counts = engine.get("/health")["counts"]
        assert counts["documents"] == len(mine_now["documents"])
        assert counts["chunks"] == len(mine_now["chunks"])
        assert engine.list_jobs()["meta"]["total"] == len(mine_now["jobs"])


def test_whatever_is_counted_is_ones_own(both: tuple[Organization, Organization]) -> None:
    """A list counts what it shows, and it shows nothing of the other's; so neither is counted."""
    for mine in both:
        engine, lists = mine.base.engine(mine.key), 0
        rows = mine.dump()
        for operation in mine.base.operations():
            names = {item["name"] for item in operation.described.get("parameters", [])}
            if operation.method == "GET" and "per_page" in names and "{" not in operation.path:
                path, shown, page = (
                    operation.path.removeprefix("/api/v1"),
                    0,
                    {"total_pages": 1, "page": 0, "total": 0},
                )
                while page["page"] < page["total_pages"]:
                    answer = engine.get(path, page=page["page"] + 1, per_page=100)
                    page = answer["meta"]
                    shown += len(answer["data"])
                assert page["total"] == shown, path
                lists += 1
        assert lists >= 10

        tagged = [row["tag"] for row in rows["document_tags"]]
        assert {
            item["tag"]: item["count"] for item in engine.get("/tags", per_page=100)["data"]
        } == {tag: tagged.count(tag) for tag in set(tagged)}
        preview = engine.post("/bulk/preview", {"operation": "delete", "from_id": 1})
        assert preview["matched"] == preview["total"] == len(rows["documents"])
        preview = engine.post(
            "/bulk/preview", {"operation": "activate", "from_id": 1, "status": "all"}
        )
        assert preview["matched"] == preview["total"] == len(rows["chunks"])
        found = engine.search(
            "the same words in both organizations", mode="lexical", k=100, facets=True
        )
        assert found["facets"]["documents"] == len({hit["doc_id"] for hit in found["hits"]})


@pytest.mark.parametrize("direction", ["alpha asks for beta's", "beta asks for alpha's"])
def test_whatever_is_asked_nothing_of_the_other_is_found_or_changed(
    both: tuple[Organization, Organization], direction: str
) -> None:
    me, other = both if direction.startswith("alpha") else both[::-1]
    secrets = {*other.secrets}
    before = other.dump()
    asked, wrong = 0, []
    for operation in me.base.operations():
        for path, body in requests(operation, other, me.base.openapi):
            reply = me.ask(operation.method, path, body)
            asked += 1
            # What was sent in a body may have been stored, and come back later.
            if isinstance(body, dict) and reply.status < 300:
                secrets -= set(UUID.findall(json.dumps(body)))
            sent = path + (
                ""
                if body is None
                else body.decode()
                if isinstance(body, bytes)
                else json.dumps(body)
            )
            found = leaked(contents(reply), sent, secrets, other.hidden)
            if found or reply.status >= 500 or reply.status in {401, 429}:
                wrong.append((str(operation), path, body, reply.status, found[:3]))

    assert wrong[:5] == []
    assert asked > 500
    after = other.dump()
    assert [table for table in before if before[table] != after[table]] == []


NOBODYS = {"integer": "987654321", "uuid": "00000000-0000-4000-8000-0000000fffff"}


def test_an_id_of_the_other_is_answered_like_one_that_nobody_has(
    both: tuple[Organization, Organization],
) -> None:
    """Anything else, a 403 for example, would say that there is something."""
    me, other = both
    wrong = []
    for operation in me.base.operations():
        places = [
            item for item in operation.described.get("parameters", []) if item["in"] == "path"
        ]
        if len(places) != 1 or "_id}" not in operation.path:
            continue
        kind = "integer" if "integer" in json.dumps(places[0]["schema"]) else "uuid"
        body = next(_bodies(operation.described, other, me.base.openapi))

        def answer(value: Any, operation: Any = operation, body: Any = body) -> tuple[int, str]:
            reply = me.ask(operation.method, re.sub(r"\{[^}]*\}", str(value), operation.path), body)
            return reply.status, reply.body.decode("utf-8", "replace").replace(str(value), "ID")

        expected = answer(NOBODYS[kind])
        for value in places_for(places[0], other)[:40]:
            if answer(value) != expected:
                wrong.append((str(operation), value, answer(value), expected))

    assert wrong[:5] == []


def test_the_same_file_is_no_duplicate_of_the_others_and_outlives_it(
    both: tuple[Organization, Organization],
) -> None:
    base = both[0].base
    engines = [base.engine(item.key) for item in both]
    first, second = (
        engine.add_file("twin.md", b"# Twin\n\nthe very same bytes\n") for engine in engines
    )

    assert (first["status"], second["status"]) == ("added", "added")
    assert "duplicate" not in second or second["duplicate"] is False
    engines[0].delete_document(first["document"]["id"])
    assert engines[1].get_file(second["document"]["id"]) == b"# Twin\n\nthe very same bytes\n"


def test_a_file_that_the_other_has_added_is_still_wanted(shared: Any) -> None:
    """`sources/compare` tells what need not be sent; a neighbour's file of the same name, size and time is no reason."""
    listing = [{"source": "/home/zoe/a.md", "size": 9, "modified_ns": 7}]
    first, second = (shared.engine(shared.key("admin", name)) for name in ("epsilon", "zeta"))
    first.add_file("a.md", b"# Zebras\n", source="/home/zoe/a.md", modified_ns=7)
    assert first.compare_sources(listing)["wanted"] == []
    assert second.compare_sources(listing)["wanted"] == [0]


def test_roles_of_the_other_are_not_listed(shared: Any) -> None:
    first, second = (shared.engine(shared.key("admin", name)) for name in ("epsilon", "zeta"))
    first.set_role("keeper-of-zebras", ["documents.read"])
    assert "keeper-of-zebras" in json.dumps(first.get("/roles"))
    assert "keeper-of-zebras" not in json.dumps(second.get("/roles"))


def test_an_archive_of_one_can_be_imported_into_the_other_as_new(
    both: tuple[Organization, Organization], shared: Any
) -> None:
    alpha, _ = both
    key = shared.key("admin", "gamma")
    archive = alpha.ask("GET", "/api/v1/export").body
    preview = json.loads(
        shared.ask(
            key, "POST", "/api/v1/import", archive, {"Content-Type": "application/octet-stream"}
        ).body
    )

    # Whether it differs from what another organization has is nobody's business.
    assert preview["documents"]["identical"] == preview["documents"]["different"] == 0
    assert all(item["identical"] == 0 for item in preview["tables"].values())
    before = alpha.dump()
    while not json.loads(
        shared.ask(key, "POST", f"/api/v1/import/{preview['import_id']}/apply").body
    )["finished"]:
        pass
    engine = shared.engine(key)
    assert engine.list_documents()["meta"]["total"] == preview["documents"]["new"]
    assert engine.search(alpha.word)["hits"]
    assert alpha.dump() == before


# Tokens


def test_a_token_is_of_no_use_to_another_user_of_the_same_organization(shared: Any) -> None:
    ann, bob = shared.key("admin", "delta", user="ann"), shared.key("admin", "delta", user="bob")
    upload = json.loads(shared.ask(ann, "POST", "/api/v1/uploads", {"filename": "a.md"}).body)[
        "upload_id"
    ]
    archive = shared.ask(ann, "GET", "/api/v1/export").body
    octets = {"Content-Type": "application/octet-stream"}
    imported = json.loads(shared.ask(ann, "POST", "/api/v1/import", archive, octets).body)[
        "import_id"
    ]

    assert shared.ask(bob, "PUT", f"/api/v1/uploads/{upload}", b"# Bob's", octets).status == 404
    assert shared.ask(bob, "POST", f"/api/v1/uploads/{upload}/finish").status == 404
    assert shared.ask(bob, "POST", f"/api/v1/import/{imported}/apply").status == 404
    shared.ask(bob, "DELETE", f"/api/v1/import/{imported}")
    assert shared.ask(ann, "POST", f"/api/v1/import/{imported}/apply").status == 200
    assert shared.ask(ann, "PUT", f"/api/v1/uploads/{upload}", b"# Ann's", octets).status == 200
