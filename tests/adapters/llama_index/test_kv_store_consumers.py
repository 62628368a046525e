"""Document stores, index stores, ingestion and embedding caches over ``TieredKVStore``, beside LlamaIndex's own store."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import MockEmbedding, StorageContext
from llama_index.core.data_structs import IndexDict
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.schema import Document, TextNode, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore
from llama_index.core.storage.kvstore import SimpleKVStore

from llama_index_tiered_memory import TieredKVStore


@pytest.fixture(params=["stock", "ours", "ours within bounds"])
def any_kv(request, memory):
    if request.param == "stock":
        return SimpleKVStore()
    return TieredKVStore(memory, max_items=1_000 if "bounds" in request.param else None)


@pytest.fixture
def kv(memory):
    return TieredKVStore(memory)


class TestInADocumentStore:
    @pytest.fixture(params=["stock", "ours"])
    def docstore(self, request, memory):
        return (
            SimpleDocumentStore() if request.param == "stock" else KVDocumentStore(TieredKVStore(memory), batch_size=3)
        )

    @staticmethod
    def nodes(document="d1", count=3):
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo

        return [
            TextNode(id_=f"{document}-{i}", text=f"text {i}",
                     relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)})
            for i in range(count)
        ]  # fmt: skip

    def test_documents_come_back_equal(self, docstore):
        document = Document(id_="d", text="hello", metadata={"n": 1, "tags": ["a"]})
        docstore.add_documents([document, *self.nodes()])
        assert docstore.get_document("d") == document
        assert sorted(docstore.docs) == ["d", "d1-0", "d1-1", "d1-2"]
        assert docstore.document_exists("d")
        assert not docstore.document_exists("?")
        assert docstore.get_document("?", raise_error=False) is None

    def test_a_documents_hash_finds_it(self, docstore):
        document = Document(id_="d", text="hello")
        docstore.add_documents([document])
        docstore.set_document_hash("d", document.hash)
        assert docstore.get_document_hash("d") == document.hash
        assert docstore.get_all_document_hashes() == {document.hash: "d"}

    def test_deleting_a_node_takes_it_off_its_document(self, docstore):
        docstore.add_documents(self.nodes())
        docstore.delete_document("d1-1")
        assert docstore.get_ref_doc_info("d1").node_ids == ["d1-0", "d1-2"]

    def test_deleting_a_document_deletes_its_nodes(self, docstore):
        docstore.add_documents([*self.nodes("d1"), *self.nodes("d2")])
        docstore.delete_ref_doc("d1")
        assert sorted(docstore.docs) == ["d2-0", "d2-1", "d2-2"]
        assert docstore.get_ref_doc_info("d1") is None

    async def test_the_async_methods_work_too(self, docstore):
        await docstore.async_add_documents(self.nodes())
        assert (await docstore.aget_document("d1-0")).text == "text 0"
        assert await docstore.adocument_exists("d1-1")
        await docstore.adelete_document("d1-0")
        assert not await docstore.adocument_exists("d1-0")

    def test_a_storage_context_over_it_persists_without_being_asked(self, memory, tmp_path):
        kv = TieredKVStore(memory)
        context = StorageContext.from_defaults(docstore=KVDocumentStore(kv), index_store=KVIndexStore(kv))
        context.docstore.add_documents(self.nodes())
        context.index_store.add_index_struct(IndexDict(index_id="i"))
        context.persist(persist_dir=str(tmp_path / "persisted"))
        again = KVIndexStore(TieredKVStore(memory))
        assert again.get_index_struct("i").index_id == "i"
        assert len(again.index_structs()) == 1
        again.delete_index_struct("i")
        assert again.index_structs() == []


class TestInAnIndexStore:
    @pytest.fixture(params=["stock", "ours"])
    def index_store(self, request, memory):
        return SimpleIndexStore() if request.param == "stock" else KVIndexStore(TieredKVStore(memory))

    def test_index_structs_come_back_and_go(self, index_store):
        index_store.add_index_struct(IndexDict(index_id="i", nodes_dict={"n": "d"}))
        assert index_store.get_index_struct("i").nodes_dict == {"n": "d"}
        assert index_store.get_index_struct().index_id == "i", "the only one"
        index_store.add_index_struct(IndexDict(index_id="j"))
        assert sorted(one.index_id for one in index_store.index_structs()) == ["i", "j"]
        index_store.delete_index_struct("i")
        assert index_store.get_index_struct("i") is None

    async def test_the_async_methods_work_too(self, index_store):
        await index_store.async_add_index_struct(IndexDict(index_id="i"))
        assert (await index_store.aget_index_struct("i")).index_id == "i"
        assert len(await index_store.async_index_structs()) == 1
        await index_store.adelete_index_struct("i")
        assert await index_store.async_index_structs() == []


class Counting(TransformComponent):
    """Marks nodes, and tells by a file how often it ran; the class can be pickled into a worker process."""

    path: str

    def __call__(self, nodes, **_):
        with Path(self.path).open("a") as file:
            file.write("x" * len(nodes))
        for node in nodes:
            node.metadata["seen"] = True
        return nodes


class TestInIngestion:
    @pytest.fixture
    def counting(self, tmp_path):
        (tmp_path / "runs").touch()
        return Counting(path=str(tmp_path / "runs")), lambda: len((tmp_path / "runs").read_text())

    @staticmethod
    def documents(count=4):
        return [Document(id_=str(i), text=f"document {i}") for i in range(count)]

    def test_a_second_run_takes_every_result_from_the_cache(self, any_kv, counting):
        component, runs = counting
        for _ in range(2):
            pipeline = IngestionPipeline(transformations=[component], cache=IngestionCache(cache=any_kv))
            nodes = pipeline.run(documents=self.documents())
            assert [node.metadata for node in nodes] == [{"seen": True}] * 4
        assert runs() == 4

    async def test_the_sync_cache_works_inside_an_async_run(self, any_kv, counting):
        component, runs = counting
        for _ in range(2):
            pipeline = IngestionPipeline(transformations=[component], cache=IngestionCache(cache=any_kv))
            assert len(await pipeline.arun(documents=self.documents())) == 4
        assert runs() == 4

    def test_a_cleared_cache_is_empty(self, any_kv):
        cache = IngestionCache(cache=any_kv)
        cache.put("k", [TextNode(text="a")])
        assert cache.get("k")[0].text == "a"
        cache.clear()
        assert cache.get("k") is None

    def test_worker_processes_share_the_cache_through_the_file(self, kv):
        pipeline = IngestionPipeline(transformations=[MockEmbedding(embed_dim=4)], cache=IngestionCache(cache=kv))
        nodes = pipeline.run(documents=self.documents(), num_workers=2)
        assert sorted(node.text for node in nodes) == [f"document {i}" for i in range(4)]
        assert len(kv.get_all("llama_cache")) == 2, "what each worker computed is in the shared file"

    def test_documents_that_did_not_change_are_not_taken_in_twice(self, any_kv):
        pipeline = IngestionPipeline(
            transformations=[], docstore=KVDocumentStore(any_kv), docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY
        )
        assert len(pipeline.run(documents=self.documents())) == 4
        assert len(pipeline.run(documents=self.documents())) == 0

    def test_a_document_that_changed_is_taken_in_anew_and_one_that_did_not_is_not(self, any_kv):
        pipeline = IngestionPipeline(
            transformations=[], docstore=KVDocumentStore(any_kv), docstore_strategy=DocstoreStrategy.UPSERTS
        )
        pipeline.run(documents=self.documents())
        changed = [Document(id_="0", text="document 0, second edition"), *self.documents()[1:]]
        assert [node.text for node in pipeline.run(documents=changed)] == ["document 0, second edition"]
        assert len(pipeline.docstore.docs) == 4

    def test_two_transformations_that_differ_share_no_result(self, any_kv):
        for size in (4, 8):
            pipeline = IngestionPipeline(
                transformations=[MockEmbedding(embed_dim=size)], cache=IngestionCache(cache=any_kv)
            )
            assert {len(node.embedding) for node in pipeline.run(documents=self.documents())} == {size}

    def test_two_caches_of_other_names_over_one_store_are_apart(self, any_kv):
        one, other = (IngestionCache(cache=any_kv, collection=name) for name in ("one", "other"))
        one.put("k", [TextNode(text="a")])
        assert other.get("k") is None
        other.clear()
        assert one.get("k")[0].text == "a"


class TestAsAnEmbeddingCache:
    def test_a_text_is_embedded_once_and_comes_back_exactly(self, any_kv, monkeypatch):
        model = MockEmbedding(embed_dim=4, embeddings_cache=any_kv)
        calls = []
        embed = MockEmbedding._get_text_embedding
        monkeypatch.setattr(
            MockEmbedding, "_get_text_embedding", lambda self, text: calls.append(text) or embed(self, text)
        )
        first = model.get_text_embedding("hello\nworld")
        assert model.get_text_embedding("hello\nworld") == first
        assert calls == ["hello\nworld"]
        assert list(any_kv.get_all("embeddings")) == ["hello\nworld"]

    async def test_the_async_cache_answers_too(self, any_kv):
        model = MockEmbedding(embed_dim=4, embeddings_cache=any_kv)
        first = await model.aget_text_embedding("a")
        assert await model.aget_text_embedding("a") == first
        assert await model.aget_text_embedding_batch(["a", "b"]) == [first, first]
        assert sorted(any_kv.get_all("embeddings")) == ["a", "b"]

    def test_models_with_scopes_of_their_own_share_no_vector(self, memory):
        """LlamaIndex's key is the text alone: two models over one store would get each other's vectors."""
        short, long = (
            MockEmbedding(embed_dim=size, embeddings_cache=TieredKVStore(memory, scope=f"embeddings of {size}"))
            for size in (4, 8)
        )
        assert [len(model.get_text_embedding("a")) for model in (short, long, short)] == [4, 8, 4]
